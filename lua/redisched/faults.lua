-- Look for what this system's own programs do wrong: a thousand ids, at most.
--
-- Ids without a body gather at the head, where nobody can take them; bodies are looked at by chance. `number` is how many
-- were met, or how many there are at least; `other` the second number of a sentence.
--
-- KEYS     jobs      hash  body by id
--          queued    zset  id by due
--          reserved  zset  id by lease deadline
--          expiries  zset  id by leases that rqtui saw expire
-- ARGV     unit      str   ms, s or auto
-- returns  looked  (looked int) rows (kind str, key str, id bytes, number int, other int)
local jobs, queued, reserved, expiries = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local unit, S, MS = ARGV[1], '100000000', '100000000000'
local rows, looked = {}, 0
local function add(kind, key, id, number, other) rows[#rows + 1] = {kind, key, id, number, other or 0} end

local scores_s = redis.call('ZCOUNT', queued, S, '(' .. MS) + redis.call('ZCOUNT', reserved, S, '(' .. MS)
local scores_ms = redis.call('ZCOUNT', queued, MS, '+inf') + redis.call('ZCOUNT', reserved, MS, '+inf')
if scores_s > 0 and (scores_ms > 0 or unit == 'ms') or scores_ms > 0 and unit == 's' then
  local odd = (unit == 's' or unit == 'auto' and scores_ms < scores_s) and {MS, '+inf'} or {S, '(' .. MS}
  local key = redis.call('ZCOUNT', queued, odd[1], odd[2]) > 0 and queued or reserved
  add('mixed_units', key, redis.call('ZRANGEBYSCORE', key, odd[1], odd[2], 'LIMIT', 0, 1)[1], scores_s, scores_ms)
end

local never = redis.call('ZCOUNT', queued, '-inf', '(0') + redis.call('ZCOUNT', queued, '(9e15', '+inf')
if never > 0 then
  local id = redis.call('ZRANGEBYSCORE', queued, '-inf', '(0', 'LIMIT', 0, 1)[1]
  add('never_due', queued, id or redis.call('ZRANGEBYSCORE', queued, '(9e15', '+inf', 'LIMIT', 0, 1)[1], never)
end

local held = redis.call('ZCARD', reserved)
local placed = redis.call('ZCARD', queued) + held
for _, key in ipairs({queued, reserved}) do
  local ghost, ghosts = false, 0
  for _, id in ipairs(redis.call('ZRANGE', key, 0, 299)) do
    looked = looked + 1
    if redis.call('HEXISTS', jobs, id) == 0 then ghost, ghosts = ghost or id, ghosts + 1 end
  end
  if ghost then add('ghost', key, ghost, ghosts) end
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
    if not due[i] and not deadline[i] then lost, number = lost or id, number + 1 end
  end
  if lost then add('no_place', jobs, lost, math.max(number, bodies - placed)) end
end

local often = redis.call('ZREVRANGEBYSCORE', expiries, '+inf', 5, 'WITHSCORES', 'LIMIT', 0, 20)
for i = 1, #often, 2 do
  if redis.call('HEXISTS', jobs, often[i]) == 1 then
    add('poison', reserved, often[i], tonumber(often[i + 1]))
    break
  end
end
return {'looked', looked, rows}
