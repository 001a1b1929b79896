-- Purge the queue in chunks, the next messages first.
--
-- Messages that workers hold are kept. `delete` removes late messages one by one, because other queues share their place.
--
-- moves    queue ->
-- derived  <prefix><queue><sep><step>  the list of another priority
-- KEYS     queue
-- ARGV     queue   str   the name of the queue
--          prefix  str   the prefix of all keys; may be empty
--          sep     str   the separator between the name of a queue and a priority
--          steps   str   the priorities that have a list of their own: 0/3/6/9
--          place   str   queue, eta or unacked
--          limit   int   the largest number of jobs in this call, 1 to 1000
-- returns  moved  (moved int, left int)  purged
--          kept   workers hold the messages and would run them anyway: cancel the tasks
--          empty  the place is empty
-- include: keys, args(place limit), options, queue_guard, lengths
if #ARGV < 6 or not string.find(ARGV[6], '^%d+$') or limit < 1 or limit > 1000 or not ({queue = 1, eta = 1, unacked = 1})[place] then
  return redis.error_reply('ERR the place is queue, eta or unacked, limit is 1 to 1000; nothing was changed')
end
if place ~= 'queue' then return {'kept'} end
local moved, left = 0, 0
for i, list in ipairs(lists) do
  local taken = math.min(limit - moved, lengths[i])
  if taken > 0 then redis.call('LTRIM', list[1], 0, -taken - 1) end
  moved, left = moved + taken, left + lengths[i] - taken
end
return moved > 0 and {'moved', moved, left} or {'empty'}
