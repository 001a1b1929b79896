-- Limit the time of a task in all workers, until they restart.
--
-- At the soft limit the task gets the exception SoftTimeLimitExceeded, at the hard limit its process is killed. A limit that is not given
-- is removed. A worker of Celery 5.7 replies that the limits are set, but applies them only after its next connection to Redis: its
-- requests keep the limits that the task had then (create_request_cls, celery/worker/request.py 5.7). The workers reply to the list
-- `reply` (time_limit, celery/worker/control.py 5.7).
--
-- writes   control
-- derived  <prefix><reply>.reply.<control>.pidbox  the list for the replies
-- KEYS     control
-- ARGV     prefix    str      the prefix of all keys; may be empty
--          reply     str      the list for the replies, without the prefix
--          task      str      the name of the task
--          soft_ms?  int      the soft limit; empty for none
--          hard_ms?  int      the hard limit; empty for none
-- returns  asked    (heard int)  asked to limit the task
--          unheard  no worker listens
-- include: keys, args, integers(soft_ms hard_ms)
if #ARGV ~= 5 or task == '' or (soft_ms or 1) < 1 or (hard_ms or 1) < 1 then
  return redis.error_reply('ERR it takes the name of a task, and limits above 0 or none; nothing was changed')
end
-- include: publish_command, ask_workers
local function to_seconds(ms) return ms and ms / 1000 or cjson.null end
local heard = ask_workers({{'time_limit', {task_name = task, soft = to_seconds(soft_ms), hard = to_seconds(hard_ms)}}})
return heard > 0 and {'asked', heard} or {'unheard'}
