-- Pause all queues of this RQ: no worker takes a job; what is started goes on.
--
-- A worker that waits for a job already takes one more. One that is started meanwhile ends by itself.
--
-- writes   suspended
-- KEYS     suspended  string  there while all workers rest
-- returns  paused   paused, all queues; a worker that waits takes one more job
--          already  all queues are paused already
local suspended = KEYS[1]
if redis.call('GET', suspended) then return {'already'} end
redis.call('PERSIST', suspended) -- frees nothing: this goes on over maxmemory
redis.call('SET', suspended, 1)
return {'paused'}
