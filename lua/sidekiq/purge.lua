-- Purge the queue in batches, starting with the next jobs.
--
-- This script does not purge places that all queues share. There, rqtui deletes the jobs of the queue one by one.
--
-- moves    queue ->
-- KEYS     queue
-- ARGV     queue  str   its name
--          place  str   queue
--          limit  int   how many jobs in this call, 1 to 1000
-- returns  moved  (moved int, left int)  purged
--          empty  the queue is empty
-- include: keys, args(place limit)
if #ARGV < 3 or not string.find(ARGV[3], '^%d+$') or limit < 1 or limit > 1000 or place ~= 'queue'
  or string.sub(queue, -#ARGV[1] - 6) ~= 'queue:' .. ARGV[1] then
  return redis.error_reply('ERR the place is queue, limit is 1 to 1000; nothing was changed')
end
local length = redis.call('LLEN', queue)
if length == 0 then return {'empty'} end

redis.call('LTRIM', queue, 0, -limit - 1)
local left = redis.call('LLEN', queue)
return {'moved', length - left, left}
