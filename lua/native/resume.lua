-- Resume a paused queue: hand out jobs again.
--
-- writes   meta events wake
-- KEYS     meta       hash    settings and counters
--          events     stream  what happened, while watched
--          wake       zset    the marker that blocked consumers wait on
-- ARGV     now_ms?   int     a test's clock; the server's when empty
-- returns  resumed  resumed; jobs are handed out again
--          already it was not paused
local meta, events, wake = KEYS[1], KEYS[2], KEYS[3]
local version, paused, watch = unpack(redis.call('HMGET', meta, 'version', 'paused', 'events'))
for _, key in ipairs({wake}) do redis.call('ZCARD', key) end
for _, key in ipairs({events}) do redis.call('XLEN', key) end
-- block: opening
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
if version and version ~= '2' and version ~= '1' then
  return redis.error_reply('ERR this queue has schema version ' .. version .. ', these scripts speak 1 and 2; nothing was changed')
end
-- end
if #ARGV < 1 or #ARGV[1] > 13 or string.find(ARGV[1], '%D') then return redis.error_reply('ERR now_ms is a whole number; nothing was changed') end
if not paused then return {'already'} end

redis.call('HDEL', meta, '') -- frees nothing: this goes on over maxmemory
redis.call('HDEL', meta, 'paused')

-- block: note
local function note(...) -- bookkeeping never fails the verb; what failed is counted
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then redis.pcall('HINCRBY', meta, 'unnoted', 1) end
end
-- end
note('ZADD', wake, 0, 'wake')
if watch == 'on' or (tonumber(watch) or 0) > now_ms then
  note('XADD', events, 'MAXLEN', '~', 10000, '*', 'verb', 'resume')
end
return {'resumed'}
