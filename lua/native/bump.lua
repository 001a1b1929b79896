-- Bump ready jobs: the first of them is the next one to run, the others follow in the order given.
--
-- Their priority stays as it is, for the attempts after this one.
--
-- writes   ready attempts meta events minutes
-- KEYS     scheduled  zset    id by due (ms)
--          ready      zset    id by priority, then arrival
--          reserved   zset    id by lease deadline (ms)
--          done       zset    id by forget-at (ms)
--          dead       zset    id by died-at (ms)
--          jobs       hash    header and body by id
--          attempts   hash    what changes, by id
--          meta       hash    settings and counters
--          events     stream  what happened, while watched
--          minutes    stream  counters per minute
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          each      (id bytes)
-- returns each  changed      bumped
--               wrong_place  (place str)  it is not ready
--               gone         no such job
local scheduled, ready, reserved, done, dead, jobs, attempts, meta, events, minutes =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local version, watch, last_minute = unpack(redis.call('HMGET', meta, 'version', 'events', 'minute'))
for _, key in ipairs({scheduled, ready, reserved, done, dead}) do redis.call('ZCARD', key) end
for _, key in ipairs({jobs, attempts}) do redis.call('HLEN', key) end
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
if #ARGV < 2 or #ARGV > 1001 then return redis.error_reply('ERR a batch has 1 to 1000 ids; nothing was changed') end
if #ARGV[1] > 13 or string.find(ARGV[1], '%D') then return redis.error_reply('ERR now_ms is a whole number; nothing was changed') end
local words, bumped, seen = {}, {}, {}
for at = 2, #ARGV do
  local id = ARGV[at]
  local place = place_of(id)
  if place ~= 'ready' then
    words[#words + 1] = place and {'wrong_place', place} or 'gone'
  else
    words[#words + 1] = 'changed'
    if not seen[id] then bumped[#bumped + 1], seen[id] = id, true end
  end
end
if #bumped == 0 then return words end
-- The lowest score is that of priority -4096, -2^52, less what was bumped since. Far below that somebody else wrote it.
local lowest = redis.call('ZRANGEBYSCORE', ready, '-5629499534213120', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
local next_score = math.min(tonumber(lowest or 0), 2 ^ 52) - #bumped
local scores, lines = {}, {}
for at, id in ipairs(bumped) do
  local score = string.format('%.0f', next_score + at - 1)
  scores[2 * at - 1], scores[2 * at] = score, id
  local tried, token, since, rest = string.match(redis.call('HGET', attempts, id) or '', '^(%d+) (%S+) %S+ (%S+) (.*)$')
  if not tried then
    local enqueued, due = string.match(redis.call('HGET', jobs, id) or '', '^(%d+) ?(%d*)')
    tried, token, since, rest = 0, '-', math.max(tonumber(enqueued or 0), tonumber(due or '') or 0), '- - '
  end
  lines[2 * at - 1], lines[2 * at] = id, table.concat({tried, token, score, since, rest}, ' ')
end

redis.call('ZREM', ready, '') -- frees nothing: a drain may go on over maxmemory
redis.call('HSET', attempts, unpack(lines))
redis.call('ZADD', ready, unpack(scores))

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
note('HINCRBY', meta, 'bumped', #bumped)
if watch == 'on' or (tonumber(watch) or 0) > now_ms then
  for _, id in ipairs(bumped) do note('XADD', events, 'MAXLEN', '~', 10000, '*', 'verb', 'bump', 'id', id) end
end
return words
