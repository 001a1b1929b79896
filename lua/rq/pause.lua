-- Pause all queues of this RQ: workers take no more jobs. Started jobs continue.
--
-- A worker that already waits for a job takes one more. A worker that is started during the pause ends.
--
-- writes   suspended
-- KEYS     suspended
-- returns  paused   paused, all queues; a worker that waits takes one more job
--          already  all queues are paused already
-- include: keys
if redis.call('GET', suspended) then return {'already'} end
redis.call('PERSIST', suspended) -- frees nothing, but lets the script finish over maxmemory
redis.call('SET', suspended, 1)
return {'paused'}
