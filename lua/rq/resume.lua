-- Resume all queues of this RQ: workers take jobs again.
--
-- writes   suspended
-- KEYS     suspended  string  exists while all queues are paused
-- returns  resumed  resumed, all queues
--          already  no queue is paused
local suspended = KEYS[1]
if not redis.call('GET', suspended) then return {'already'} end
redis.call('DEL', suspended)
return {'resumed'}
