-- Resume all queues of this RQ: workers take jobs again.
--
-- writes   suspended
-- KEYS     suspended
-- returns  resumed  resumed, all queues
--          already  no queue is paused
-- include: keys
if not redis.call('GET', suspended) then return {'already'} end
redis.call('DEL', suspended)
return {'resumed'}
