-- Write new due times of queued jobs, and reply.
--
-- needs    queued
--          dues  scores and ids
--          outcomes
if #dues == 0 then return outcomes end

redis.call('ZREMRANGEBYRANK', queued, 1, 0) -- frees nothing: a drain may go on over maxmemory
redis.call('ZADD', queued, unpack(dues))
return outcomes
