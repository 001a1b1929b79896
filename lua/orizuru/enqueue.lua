-- Enqueue jobs behind the waiting jobs.
--
-- moves    -> source
-- KEYS     source
-- ARGV     each    (body bytes)  MessagePack
-- returns each  moved  enqueued
-- include: keys, key_types(source), batch_size(bodies)
redis.call('LPUSH', source, unpack(ARGV))
local outcomes = {}
for i = 1, #ARGV do outcomes[i] = 'moved' end
return outcomes
