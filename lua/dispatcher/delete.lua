-- Delete tasks from a place.
--
-- Each row deletes one task. Of several equal ready tasks, the first one is deleted.
--
-- moves    delayed ready ->
-- KEYS     delayed  zset  task by due (s)
--          ready    list  tasks, first in, first out
-- ARGV     place    str   delayed or ready
--          each     (member bytes)
-- returns each  moved  deleted
--               gone   it is not in that place
local delayed, ready = KEYS[1], KEYS[2]
local place = ARGV[1]
redis.call('ZCARD', delayed)
redis.call('LLEN', ready)
if place ~= 'delayed' and place ~= 'ready' then
  return redis.error_reply('ERR the place is delayed or ready; nothing was changed')
end
if #ARGV < 2 or #ARGV > 1001 then return redis.error_reply('ERR a batch has 1 to 1000 tasks; nothing was changed') end
local words = {}
for at = 2, #ARGV do
  local gone = place == 'delayed' and redis.call('ZREM', delayed, ARGV[at]) or redis.call('LREM', ready, 1, ARGV[at])
  words[at - 1] = gone == 1 and 'moved' or 'gone'
end
return words
