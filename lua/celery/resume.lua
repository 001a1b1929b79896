-- Resume a queue: publish a command to all workers to take messages from it.
--
-- `heard` is the number of subscribers. A worker that did not take messages from this queue before does so from now on, if its
-- program declares the queue.
--
-- writes   control
-- KEYS     control
-- ARGV     queue    str      the name of the queue
-- returns  resumed  (heard int)  resumed: all workers that listen take messages from it
--          unheard  no worker listens, so no worker was resumed
-- include: keys, args, publish_command
if #ARGV < 1 or queue == '' then return redis.error_reply('ERR it takes the name of a queue; nothing was changed') end
local heard = publish_command('add_consumer', {queue = queue})
return heard > 0 and {'resumed', heard} or {'unheard'}
