-- Delete jobs wherever they are; the answer holds all of each, so that `restore` can put it back.
--
-- A reserved job needs force; with a token, only the lease that has it is ended; its worker's later answer is then `gone`.
-- With a line (`-`: it has none), only a job that was not tried again, or moved and brought back, since it was read.
--
-- moves    scheduled ready reserved done dead ->
-- writes   jobs bodies attempts errors meta events minutes
-- KEYS     scheduled  zset    id by due (ms)
--          ready      zset    id by priority, then arrival
--          reserved   zset    id by lease deadline (ms)
--          done       zset    id by forget-at (ms)
--          dead       zset    id by died-at (ms)
--          jobs       hash    header and body by id
--          bodies     hash    long bodies by id
--          attempts   hash    what changes, by id
--          errors     hash    failed attempts by id
--          meta       hash    settings and counters
--          events     stream  what happened, while watched
--          minutes    stream  counters per minute
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          place?    str     only if it is still there; anywhere when empty
--          force?    bool    even when a worker holds it
--          each      (id bytes, token? str, line? bytes)
-- returns each  moved        (place str, score str, record bytes, body bytes, line bytes, errors bytes)  deleted
--               reserved     a worker holds it; force it, or cancel it
--               stale        another lease holds it now
--               changed      it was tried or changed since it was read, and stays
--               wrong_place  (place str)  it is somewhere else
--               gone         no such job
local scheduled, ready, reserved, done, dead, jobs, bodies, attempts, errors, meta, events, minutes =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local place, force = ARGV[2], ARGV[3] == '1'
local version, watch, last_minute = unpack(redis.call('HMGET', meta, 'version', 'events', 'minute'))
for _, key in ipairs({scheduled, ready, reserved, done, dead}) do redis.call('ZCARD', key) end
for _, key in ipairs({jobs, bodies, attempts, errors}) do redis.call('HLEN', key) end
for _, key in ipairs({events, minutes}) do redis.call('XLEN', key) end
-- block: opening, place_of
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
if version and version ~= '2' and version ~= '1' then
  return redis.error_reply('ERR this queue has schema version ' .. version .. ', these scripts speak 1 and 2; nothing was changed')
end
local places = {scheduled = scheduled, ready = ready, reserved = reserved, done = done, dead = dead}
local function place_of(id)
  for name, key in pairs(places) do
    if redis.call('ZSCORE', key, id) then return name end
  end
end
-- end
if #ARGV < 6 or #ARGV > 3003 or #ARGV % 3 ~= 0 then
  return redis.error_reply('ERR a batch has 1 to 1000 rows of id, token and line; nothing was changed')
end
if #ARGV[1] > 13 or string.find(ARGV[1], '%D') then return redis.error_reply('ERR now_ms is a whole number; nothing was changed') end
local words, left, seen = {}, {}, {}
local leaves = {scheduled = {}, ready = {}, reserved = {}, done = {}, dead = {}}
for at = 4, #ARGV, 3 do
  local id = ARGV[at]
  local from = not seen[id] and place_of(id)
  local line = redis.call('HGET', attempts, id) or ''
  local held = from == 'reserved'
  if not from then
    words[#words + 1] = 'gone'
  elseif place ~= '' and place ~= from then
    words[#words + 1] = {'wrong_place', from}
  elseif held and ARGV[at + 1] ~= '' and ARGV[at + 1] ~= string.match(line, '^%d+ (%S+) ') then
    words[#words + 1] = 'stale'
  elseif held and not force then
    words[#words + 1] = 'reserved'
  elseif ARGV[at + 2] ~= '' and ARGV[at + 2] ~= (line == '' and '-' or line) then
    words[#words + 1] = 'changed'
  else
    words[#words + 1] = {
      'moved', from, redis.call('ZSCORE', places[from], id), redis.call('HGET', jobs, id) or '',
      redis.call('HGET', bodies, id) or '', line, redis.call('HGET', errors, id) or '',
    }
    seen[id], left[#left + 1] = true, id
    table.insert(leaves[from], id)
  end
end
if #left == 0 then return words end

for from, ids in pairs(leaves) do
  if #ids > 0 then redis.call('ZREM', places[from], unpack(ids)) end
end
for _, key in ipairs({jobs, bodies, attempts, errors}) do redis.call('HDEL', key, unpack(left)) end

-- block: note, minute
local function note(...) -- bookkeeping never fails the verb; what failed is counted
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then redis.pcall('HINCRBY', meta, 'unnoted', 1) end
end
local minute = now_ms - now_ms % 60000
if minute > (tonumber(last_minute) or 0) then
  note('HSET', meta, 'minute', minute)
  local counters = redis.pcall('HGETALL', meta)
  if #counters < 400 then note('XADD', minutes, 'MAXLEN', '~', 1440, minute .. '-0', unpack(counters)) end
end
-- end
note('HINCRBY', meta, 'deleted', #left)
if watch == 'on' or (tonumber(watch) or 0) > now_ms then
  for _, id in ipairs(left) do note('XADD', events, 'MAXLEN', '~', 10000, '*', 'verb', 'delete', 'id', id) end
end
return words
