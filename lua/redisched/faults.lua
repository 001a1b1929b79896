-- Find jobs that the programs of this system handle wrongly, among up to 1000 ids.
--
-- Ids without a body collect at the head of the queue, because no program takes them. Bodies are a random sample. `number`
-- is how many jobs have this problem, at least; `other` is the second number of the text. A suffix of `kind` after a colon
-- selects another text and remedy.
--
-- KEYS     jobs queued reserved expiries
-- ARGV     unit      str   ms, s or auto
-- returns  looked  (looked int) rows (kind str, key str, id bytes, number int, other int)
-- include: keys, args
if unit ~= 'ms' and unit ~= 's' and unit ~= 'auto' then return redis.error_reply('ERR unit is ms, s or auto') end
local rows, looked = {}, 0
local function add(kind, key, id, number, other) rows[#rows + 1] = {kind, key, id, number, other or 0} end
-- include: score_counts
if scores_s > 0 and (scores_ms > 0 or unit == 'ms') or scores_ms > 0 and unit == 's' then
  local mixed = (unit == 's' or unit == 'auto' and scores_ms < scores_s) and {MS, '(9e15'} or {S, '(' .. MS}
  local key = redis.call('ZCOUNT', queued, mixed[1], mixed[2]) > 0 and queued or reserved
  add('mixed_units', key, redis.call('ZRANGEBYSCORE', key, mixed[1], mixed[2], 'LIMIT', 0, 1)[1], scores_s, scores_ms)
end

local unreachable = {{'never_due', queued, '(9e15', '+inf'}, {'never_due:below', queued, '-inf', '(0'}, {'never_due:lease', reserved, '(9e15', '+inf'}}
for _, range in ipairs(unreachable) do
  local kind, key, from, to = unpack(range)
  local number = redis.call('ZCOUNT', key, from, to)
  if number > 0 then add(kind, key, redis.call('ZRANGEBYSCORE', key, from, to, 'LIMIT', 0, 1)[1], number) end
end

local large, large_count, measured = false, 0, {}
local function measure(id)
  if measured[id] then return end
  measured[id] = true
  if redis.call('HSTRLEN', jobs, id) >= 1048576 then large, large_count = large or id, large_count + 1 end
end

local held = redis.call('ZCARD', reserved)
local placed = redis.call('ZCARD', queued) + held
for _, key in ipairs({queued, reserved}) do
  local ghost, ghost_count = false, 0
  for _, id in ipairs(redis.call('ZRANGE', key, 0, 299)) do
    looked = looked + 1
    measure(id)
    if redis.call('HEXISTS', jobs, id) == 0 then ghost, ghost_count = ghost or id, ghost_count + 1 end
  end
  if ghost then add('ghost', key, ghost, ghost_count) end
end

if held > 0 then
  local ids, twice, number = redis.call('ZRANGE', reserved, 0, 299), false, 0
  for i, due in ipairs(redis.call('ZMSCORE', queued, unpack(ids))) do
    if due then twice, number = twice or ids[i], number + 1 end
  end
  if twice then add('two_places', reserved, twice, number) end
end

local bodies = redis.call('HLEN', jobs)
if bodies > 0 then
  local ids, lost, number = redis.call('HRANDFIELD', jobs, 400), false, 0
  local due, deadline = redis.call('ZMSCORE', queued, unpack(ids)), redis.call('ZMSCORE', reserved, unpack(ids))
  for i, id in ipairs(ids) do
    looked = looked + 1
    measure(ids[i])
    if not due[i] and not deadline[i] then lost, number = lost or id, number + 1 end
  end
  local kind = unit == 'auto' and (scores_s > 0) == (scores_ms > 0) and 'no_place:unit' or 'no_place'
  if lost then add(kind, jobs, lost, math.max(number, bodies - placed)) end
end
if large then add('oversized', jobs, large, large_count) end

local poison = redis.call('ZREVRANGEBYSCORE', expiries, '+inf', 5, 'WITHSCORES', 'LIMIT', 0, 20)
for i = 1, #poison, 2 do
  if redis.call('HEXISTS', jobs, poison[i]) == 1 then
    add('poison', reserved, poison[i], tonumber(poison[i + 1]))
    break
  end
end
return {'looked', looked, rows}
