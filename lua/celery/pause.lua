-- Pause a queue: publish a command to workers to take no more messages from it. They finish the messages that they hold.
--
-- `heard` is the number of subscribers. The command is not stored: a worker that starts later takes messages from the queue.
--
-- writes   control
-- KEYS     control
-- ARGV     queue    str      the name of the queue
-- returns  paused   (heard int)  paused: the workers that listen take no messages from it
--          unheard  no worker listens, so no worker was paused
-- include: keys, args, publish_command
if #ARGV < 1 or queue == '' then return redis.error_reply('ERR it takes the name of a queue; nothing was changed') end
local heard = publish_command('cancel_consumer', {queue = queue})
return heard > 0 and {'paused', heard} or {'unheard'}
