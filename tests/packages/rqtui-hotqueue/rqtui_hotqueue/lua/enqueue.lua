-- Enqueue jobs behind those that wait.
--
-- moves    -> waiting
-- KEYS     waiting  list  pickles, the next one first
-- ARGV     each  (body bytes)  a pickle
-- returns each  moved  enqueued
-- include: batch
redis.call('RPUSH', KEYS[1], unpack(ARGV))
local words = {}
for at = 1, #ARGV do words[at] = 'moved' end
return words
