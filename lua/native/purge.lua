-- Purge a place, oldest first and in batches; without a place, delete the whole queue at once.
--
-- Without force, the whole queue and the place reserved are refused while a worker holds a lease.
--
-- moves    scheduled ready reserved done dead ->
-- writes   jobs bodies attempts errors meta events minutes workers wake
-- KEYS     scheduled ready reserved done dead jobs bodies attempts errors meta events minutes workers wake
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          place?    str     the place; the whole queue when empty
--          limit     int     how many jobs in this call, 1 to 1000
--          force?    bool    even while workers hold leases
-- returns  moved     (moved int, left int)  purged
--          empty     the place or the queue is empty
--          reserved  (leases int)  workers hold jobs; force it
-- include: keys, args
local version, last_minute = unpack(redis.call('HMGET', meta, 'version', 'minute'))
-- include: key_types(scheduled ready reserved done dead wake jobs bodies attempts errors workers events minutes), opening
if #ARGV < 4 or string.find(ARGV[1] .. ARGV[3], '%D') or #ARGV[1] > 13 or not limit or limit < 1 or limit > 1000 then
  return redis.error_reply('ERR limit is 1 to 1000, now_ms a whole number; nothing was changed')
end
local places = {scheduled = scheduled, ready = ready, reserved = reserved, done = done, dead = dead}
if place ~= '' and not places[place] then
  return redis.error_reply('ERR the place is scheduled, ready, reserved, done, dead, or empty for all; nothing was changed')
end
local leases = redis.call('ZCOUNT', reserved, '(' .. now_ms, '+inf')
if leases > 0 and not force and (place == '' or place == 'reserved') then return {'reserved', leases} end
if place == '' then
  local jobs_left = 0
  for _, key in pairs(places) do jobs_left = jobs_left + redis.call('ZCARD', key) end
  local removed = redis.call('UNLINK', unpack(KEYS))
  if removed == 0 then return {'empty'} end
  return {'moved', jobs_left, 0}
end

local ids = redis.call('ZRANGE', places[place], 0, limit - 1)
if #ids == 0 then return {'empty'} end
redis.call('ZREM', places[place], unpack(ids))
for _, key in ipairs({jobs, bodies, attempts, errors}) do redis.call('HDEL', key, unpack(ids)) end
-- include: minute
note('HINCRBY', meta, 'purged', #ids)
return {'moved', #ids, redis.call('ZCARD', places[place])}
