-- Promote scheduled jobs: make them ready now.
--
-- moves    scheduled -> ready
-- writes   attempts meta events minutes wake
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
--          wake       zset    the marker that blocked consumers wait on
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          each      (id bytes)
-- returns each  moved        promoted
--               wrong_place  (place str)  it is not scheduled
--               gone         no such job
local scheduled, ready, reserved, done, dead, jobs, attempts, meta, events, minutes, wake =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11]
local version, seq, watch, last_minute = unpack(redis.call('HMGET', meta, 'version', 'seq', 'events', 'minute'))
for _, key in ipairs({scheduled, ready, reserved, done, dead, wake}) do redis.call('ZCARD', key) end
for _, key in ipairs({jobs, attempts}) do redis.call('HLEN', key) end
for _, key in ipairs({events, minutes}) do redis.call('XLEN', key) end
-- block: opening, sequence, place_of
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
if version and version ~= '2' and version ~= '1' then
  return redis.error_reply('ERR this queue has schema version ' .. version .. ', these scripts speak 1 and 2; nothing was changed')
end
if seq and not string.match(seq, '^%d+$') then
  return redis.error_reply('ERR the field seq of ' .. meta .. ' is not a number; nothing was changed')
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
local words, left, arrivals, lines, seen, next_seq = {}, {}, {}, {}, {}, tonumber(seq or 0)
for at = 2, #ARGV do
  local id = ARGV[at]
  local place = seen[id] or place_of(id)
  if place ~= 'scheduled' then
    words[#words + 1] = place and {'wrong_place', place} or 'gone'
  else
    local line = redis.call('HGET', attempts, id)
    local priority = string.match(redis.call('HGET', jobs, id) or '', '^%d+ %S+ (%-?%d+) ')
    local tried, token, own, rest = string.match(line or '', '^(%d+) (%S+) %S+ %S+ (%S+) (.*)$')
    words[#words + 1], left[#left + 1], seen[id], next_seq = 'moved', id, 'ready', next_seq + 1
    local score = string.format('%.0f', (tonumber(own) or tonumber(priority or 0)) * 2 ^ 40 + next_seq)
    arrivals[#arrivals + 1], arrivals[#arrivals + 2] = score, id
    lines[#lines + 1], lines[#lines + 2] =
      id, tried and table.concat({tried, token, score, now_ms, own, rest}, ' ') or '0 - ' .. score .. ' ' .. now_ms .. ' - - '
  end
end
if #left == 0 then return words end

redis.call('ZREM', scheduled, '') -- frees nothing: a drain may go on over maxmemory
redis.call('HSET', meta, 'seq', string.format('%.0f', next_seq))
redis.call('HSET', attempts, unpack(lines))
redis.call('ZADD', ready, unpack(arrivals))
redis.call('ZREM', scheduled, unpack(left))

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
note('HINCRBY', meta, 'promoted', #left)
note('ZADD', wake, 0, 'wake')
if watch == 'on' or (tonumber(watch) or 0) > now_ms then
  for _, id in ipairs(left) do note('XADD', events, 'MAXLEN', '~', 10000, '*', 'verb', 'promote', 'id', id) end
end
return words
