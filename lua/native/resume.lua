-- Resume a paused queue: hand out jobs again.
--
-- writes   meta events wake
-- KEYS     meta       hash    settings and counters
--          events     stream  events, while recorded
--          wake       zset    the marker that blocked consumers wait on
-- ARGV     now_ms?   int     a test's clock; the server's when empty
-- returns  resumed  resumed; jobs are handed out again
--          already it was not paused
local meta, events, wake = KEYS[1], KEYS[2], KEYS[3]
local version, paused, watch = unpack(redis.call('HMGET', meta, 'version', 'paused', 'events'))
redis.call('ZCARD', wake)
redis.call('XLEN', events)
-- include: opening
if #ARGV < 1 or #ARGV[1] > 13 or string.find(ARGV[1], '%D') then return redis.error_reply('ERR now_ms is a whole number; nothing was changed') end
if not paused then return {'already'} end

redis.call('HDEL', meta, 'paused')

-- include: note
note('ZADD', wake, 0, 'wake')
if watch == 'on' or (tonumber(watch) or 0) > now_ms then
  note('XADD', events, 'MAXLEN', '~', 10000, '*', 'verb', 'resume')
end
return {'resumed'}
