-- Write new due times of queued jobs, and reply.
--
-- needs    queued
--          dues  scores and ids
--          words
if #dues == 0 then return words end

redis.call('ZREMRANGEBYRANK', queued, 1, 0) -- frees nothing: a drain may go on over maxmemory
redis.call('ZADD', queued, unpack(dues))
return words
