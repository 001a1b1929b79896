-- Pause a queue: hand out no jobs; what is running goes on.
--
-- writes   meta events
-- KEYS     meta       hash    settings and counters
--          events     stream  what happened, while watched
-- ARGV     now_ms?   int     a test's clock; the server's when empty
-- returns  paused  paused; no job is handed out
--          already it was paused already
local meta, events = KEYS[1], KEYS[2]
local version, paused, watch = unpack(redis.call('HMGET', meta, 'version', 'paused', 'events'))
for _, key in ipairs({events}) do redis.call('XLEN', key) end
-- block: opening
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
if version and version ~= '2' and version ~= '1' then
  return redis.error_reply('ERR this queue has schema version ' .. version .. ', these scripts speak 1 and 2; nothing was changed')
end
-- end
if #ARGV < 1 or #ARGV[1] > 13 or string.find(ARGV[1], '%D') then return redis.error_reply('ERR now_ms is a whole number; nothing was changed') end
if paused then return {'already'} end

redis.call('HDEL', meta, '') -- frees nothing: this goes on over maxmemory
redis.call('HSET', meta, 'version', 2, 'paused', now_ms)

-- block: note
local function note(...) -- bookkeeping never fails the verb; what failed is counted
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then redis.pcall('HINCRBY', meta, 'unnoted', 1) end
end
-- end
if watch == 'on' or (tonumber(watch) or 0) > now_ms then
  note('XADD', events, 'MAXLEN', '~', 10000, '*', 'verb', 'pause')
end
return {'paused'}
