-- Limit the rate of a task in all workers, until they restart.
--
-- Each worker runs so many tasks of that name per second, minute or hour. The workers reply to the list `reply` (rate_limit,
-- celery/worker/control.py 5.7).
--
-- writes   control
-- derived  <prefix><reply>.reply.<control>.pidbox  the list for the replies
-- KEYS     control
-- ARGV     prefix   str      the prefix of all keys; may be empty
--          reply    str      the list for the replies, without the prefix
--          task     str      the name of the task
--          rate     str      10/s, 100/m or 5/h; 0 for no limit
-- returns  asked    (heard int)  asked to limit the task
--          unheard  no worker listens
-- include: keys, args
if #ARGV ~= 4 or task == '' or not (string.find(rate, '^%d+%.?%d*$') or string.find(rate, '^%d+%.?%d*/[smh]$')) then
  return redis.error_reply('ERR it takes the name of a task, and a rate such as 10/s, 100/m or 5/h, or 0 for no limit; nothing was changed')
end
-- include: publish_command, ask_workers
local heard = ask_workers({{'rate_limit', {task_name = task, rate_limit = tonumber(rate) == 0 and 0 or rate}}})
return heard > 0 and {'asked', heard} or {'unheard'}
