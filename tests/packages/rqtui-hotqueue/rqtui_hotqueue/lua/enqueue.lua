-- Enqueue jobs behind those that wait.
--
-- moves    -> waiting
-- KEYS     waiting  list  pickles, the next one first
-- ARGV     each  (body bytes)  a pickle
-- returns each  moved  enqueued
redis.call('LLEN', KEYS[1])
if #ARGV < 1 or #ARGV > 1000 then return redis.error_reply('ERR a batch has 1 to 1000 bodies; nothing was changed') end
redis.call('RPUSH', KEYS[1], unpack(ARGV))
local words = {}
for at = 1, #ARGV do words[at] = 'moved' end
return words
