-- Celery: the options of the layout, in ARGV[2] to ARGV[4]: what stands before all keys, what parts a queue from its priority, the
-- priorities that have a list of their own.
-- needs    queue
-- gives    prefix  before all keys
--          name    the queue's name
--          lists   of {list, priority}, in the order in which a worker takes from them
if #ARGV < 4 or not string.find(ARGV[4], '^%d+[%d/]*$') then
  return redis.error_reply('ERR it takes a prefix, which may be empty, a separator, and priorities as 0/3/6/9; nothing was changed')
end
local prefix, lists = ARGV[2], {}
local name = string.sub(queue, #prefix + 1)
for step in string.gmatch(ARGV[4], '%d+') do -- kombu/transport/redis.py 5.7, `_q_for_pri`
  lists[#lists + 1] = {tonumber(step) == 0 and queue or queue .. ARGV[3] .. step, step}
end
