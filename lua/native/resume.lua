-- Resume a paused queue: hand out jobs again.
--
-- writes   meta events wake
-- KEYS     meta events wake
-- ARGV     now_ms?   int     a test's clock; the server's when empty
-- returns  resumed  resumed; jobs are handed out again
--          already it was not paused
-- include: keys
local version, paused, watch = unpack(redis.call('HMGET', meta, 'version', 'paused', 'events'))
-- include: key_types(wake events), opening
if #ARGV < 1 or #ARGV[1] > 13 or string.find(ARGV[1], '%D') then return redis.error_reply('ERR now_ms is a whole number; nothing was changed') end
if not paused then return {'already'} end

redis.call('HDEL', meta, 'paused')
-- include: note
note('ZADD', wake, 0, 'wake')
if watch == 'on' or (tonumber(watch) or 0) > now_ms then
  note('XADD', events, 'MAXLEN', '~', 10000, '*', 'verb', 'resume')
end
return {'resumed'}
