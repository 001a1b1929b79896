-- Delete tasks from a place.
--
-- Each row deletes one task. If several ready tasks are equal, the first one is deleted.
--
-- moves    delayed ready ->
-- KEYS     delayed ready
-- ARGV     place    str   delayed or ready
--          each     (member bytes)
-- returns each  moved  deleted
--               gone   it is not in that place
-- include: keys, args, key_types(delayed ready)
if place ~= 'delayed' and place ~= 'ready' then return redis.error_reply('ERR the place is delayed or ready; nothing was changed') end
-- include: batch_size(tasks)
local outcomes = {}
for at = 2, #ARGV do
  local gone = place == 'delayed' and redis.call('ZREM', delayed, ARGV[at]) or redis.call('LREM', ready, 1, ARGV[at])
  outcomes[at - 1] = gone == 1 and 'moved' or 'gone'
end
return outcomes
