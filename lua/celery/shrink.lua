-- Shrink the pool of a worker by some processes or threads, until the worker restarts.
--
-- Only processes without a task end. A worker with autoscaling, with the pool solo, or without an idle process refuses. The worker replies to the list `reply` (pool_shrink, celery/worker/control.py 5.7).
--
-- writes   control
-- derived  <prefix><reply>.reply.<control>.pidbox  the list for the reply
-- KEYS     control
-- ARGV     prefix   str      the prefix of all keys; may be empty
--          reply    str      the list for the reply, without the prefix
--          number   int      how many processes or threads
--          each     (worker bytes)
-- returns each  asked    (heard int)  asked to shrink its pool
--               unheard  no worker listens
-- include: keys, args, integers(number)
if #ARGV ~= 4 or (number or 0) < 1 or number > 1000 then
  return redis.error_reply('ERR it takes one worker and a number from 1 to 1000; nothing was changed')
end
-- include: publish_command, ask_workers
local heard = ask_workers({{'pool_shrink', {n = number}}}, {ARGV[4]})
return {heard > 0 and {'asked', heard} or 'unheard'}
