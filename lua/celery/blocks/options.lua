-- Read the options of the system in ARGV[2] to ARGV[4], and build the lists of the queue.
--
-- needs    queue
--          ARGV[2]  prefix
--          ARGV[3]  sep
--          ARGV[4]  steps
-- gives    prefix  the prefix of all keys
--          lists   {key, priority} of each list, in the order in which workers take from them
--          name    the name of the queue
if #ARGV < 4 or not string.find(ARGV[4], '^%d+[%d/]*$') then
  return redis.error_reply('ERR it takes a prefix, which may be empty, a separator, and priorities as 0/3/6/9; nothing was changed')
end
local prefix, lists = ARGV[2], {}
local name = string.sub(queue, #prefix + 1)
for step in string.gmatch(ARGV[4], '%d+') do -- kombu/transport/redis.py 5.7, `_q_for_pri`
  lists[#lists + 1] = {tonumber(step) == 0 and queue or queue .. ARGV[3] .. step, step}
end
