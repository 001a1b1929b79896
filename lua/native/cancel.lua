-- Cancel leased jobs: ask their holders to stop; each learns it when it next extends its lease.
--
-- A job whose cancellation was asked for is not tried again: rejected or expired, it goes to dead.
--
-- writes   attempts meta events minutes
-- KEYS     scheduled  zset    id by due (ms)
--          ready      zset    id by priority, then arrival
--          reserved   zset    id by lease deadline (ms)
--          done       zset    id by forget-at (ms)
--          dead       zset    id by died-at (ms)
--          attempts   hash    what changes, by id
--          meta       hash    settings and counters
--          events     stream  what happened, while watched
--          minutes    stream  counters per minute
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          each      (id bytes, token? str)
-- returns each  asked        asked to cancel; its holder learns it at its next extend
--               stale        another lease holds it now
--               wrong_place  (place str)  nobody holds it: kill or delete it
--               gone         no such job
local scheduled, ready, reserved, done, dead, attempts, meta, events, minutes =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local version, watch, last_minute = unpack(redis.call('HMGET', meta, 'version', 'events', 'minute'))
for _, key in ipairs({scheduled, ready, reserved, done, dead}) do redis.call('ZCARD', key) end
for _, key in ipairs({attempts}) do redis.call('HLEN', key) end
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
if #ARGV < 3 or #ARGV > 2001 or #ARGV % 2 == 0 then
  return redis.error_reply('ERR a batch has 1 to 1000 rows of id and token; nothing was changed')
end
if #ARGV[1] > 13 or string.find(ARGV[1], '%D') then return redis.error_reply('ERR now_ms is a whole number; nothing was changed') end
local words, lines = {}, {}
for at = 2, #ARGV, 2 do
  local id = ARGV[at]
  local place = place_of(id)
  local line = redis.call('HGET', attempts, id) or ''
  local tried, token, score, began, priority, worker = string.match(line, '^(%d+) (%S+) (%S+) (%S+) (%S+) %S (.*)$')
  if place ~= 'reserved' or not tried then
    words[#words + 1] = place and {'wrong_place', place} or 'gone'
  elseif ARGV[at + 1] ~= '' and ARGV[at + 1] ~= token then
    words[#words + 1] = 'stale'
  else
    words[#words + 1] = 'asked'
    lines[#lines + 1], lines[#lines + 2] = id, table.concat({tried, token, score, began, priority, 'c', worker}, ' ')
  end
end
if #lines == 0 then return words end

redis.call('HDEL', attempts, '') -- frees nothing: this goes on over maxmemory
redis.call('HSET', attempts, unpack(lines))

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
note('HINCRBY', meta, 'cancelled', #lines / 2)
if watch == 'on' or (tonumber(watch) or 0) > now_ms then
  for i = 1, #lines, 2 do note('XADD', events, 'MAXLEN', '~', 10000, '*', 'verb', 'cancel', 'id', lines[i]) end
end
return words
