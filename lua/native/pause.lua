-- Pause a queue: hand out no jobs; running jobs continue.
--
-- writes   meta events
-- KEYS     meta events
-- ARGV     now_ms?   int     a test's clock; the server's when empty
-- returns  paused  paused; no job is handed out
--          already it was paused already
-- include: keys
local version, paused, watch = unpack(redis.call('HMGET', meta, 'version', 'paused', 'events'))
-- include: key_types(events), opening
if #ARGV < 1 or #ARGV[1] > 13 or string.find(ARGV[1], '%D') then return redis.error_reply('ERR now_ms is a whole number; nothing was changed') end
if paused then return {'already'} end

redis.call('HDEL', meta, '') -- removes nothing, but lets the script continue over maxmemory
redis.call('HSET', meta, 'version', 2, 'paused', now_ms)
-- include: note
if watch == 'on' or (tonumber(watch) or 0) > now_ms then
  note('XADD', events, 'MAXLEN', '~', 10000, '*', 'verb', 'pause')
end
return {'paused'}
