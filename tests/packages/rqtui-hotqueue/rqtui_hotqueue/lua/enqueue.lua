-- Enqueue jobs behind those that wait.
--
-- moves    -> waiting
-- KEYS     waiting
-- ARGV     each  (body bytes)  a pickle
-- returns each  moved  enqueued
-- include: keys, key_types, batch_size(jobs)
redis.call('RPUSH', waiting, unpack(ARGV))
local outcomes = {}
for at = 1, #ARGV do outcomes[at] = 'moved' end
return outcomes
