-- Purge the queue in chunks, those that would run next first.
--
-- What is late is purged job by job: what other queues have there stays. What workers hold stays.
--
-- moves    queue ->
-- derived  <queue><sep><step>  the list of another priority
-- KEYS     queue   list  messages of priority 0, the last one is next
-- ARGV     queue   str   its name
--          prefix  str   before all keys, or nothing
--          sep     str   what parts a queue from its priority
--          steps   str   the priorities that have a list: 0/3/6/9
--          place   str   queue, eta or unacked
--          limit   int   how many jobs in this call, 1 to 1000
-- returns  moved  (moved int, left int)  purged
--          kept   workers hold them, and would run them all the same: cancel them
--          empty  nothing is there
local queue, place, limit = KEYS[1], ARGV[5], tonumber(ARGV[6])
-- block: celery_options, celery_of_queue, celery_lengths
if #ARGV < 4 or not string.find(ARGV[4], '^%d+[%d/]*$') then
  return redis.error_reply('ERR it takes a prefix, which may be empty, a separator, and priorities as 0/3/6/9; nothing was changed')
end
local prefix, lists = ARGV[2], {}
local name = string.sub(queue, #prefix + 1)
for step in string.gmatch(ARGV[4], '%d+') do -- kombu/transport/redis.py 5.7, `_q_for_pri`
  lists[#lists + 1] = {tonumber(step) == 0 and queue or queue .. ARGV[3] .. step, step}
end
if ARGV[1] == '' or ARGV[1] ~= name then
  return redis.error_reply('ERR the list of a queue is the prefix and its name, which is the first argument; nothing was changed')
end
local lengths = {}
for i, list in ipairs(lists) do lengths[i] = redis.call('LLEN', list[1]) end
-- end
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
