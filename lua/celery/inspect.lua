-- Inspect a worker: ask what it runs, which tasks it has registered, from which queues it takes, and for its statistics.
--
-- The worker replies to the list `reply` (active, registered, active_queues and stats, celery/worker/control.py 5.7).
--
-- writes   control
-- derived  <prefix><reply>.reply.<control>.pidbox  the list for the replies
-- KEYS     control
-- ARGV     prefix   str      the prefix of all keys; may be empty
--          reply    str      the list for the replies, without the prefix
--          worker   bytes    the name of the worker
-- returns  asked    (heard int)  asked to inspect itself
--          unheard  no worker listens
-- include: keys, args
if #ARGV ~= 3 or worker == '' then return redis.error_reply('ERR it takes the name of a worker; nothing was changed') end
-- include: publish_command, ask_workers
local heard = ask_workers({{'active', {}}, {'registered', {}}, {'active_queues', {}}, {'stats', {}}}, {worker})
return heard > 0 and {'asked', heard} or {'unheard'}
