-- Enqueue jobs behind the waiting jobs.
--
-- moves    -> source
-- KEYS     source  list  ready jobs, the next one last
-- ARGV     each    (body bytes)  MessagePack
-- returns each  moved  enqueued
local source = KEYS[1]
redis.call('LLEN', source)
if #ARGV < 1 or #ARGV > 1000 then return redis.error_reply('ERR a batch has 1 to 1000 bodies; nothing was changed') end

redis.call('LPUSH', source, unpack(ARGV))
local words = {}
for i = 1, #ARGV do words[i] = 'moved' end
return words
