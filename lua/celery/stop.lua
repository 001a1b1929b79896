-- Stop workers: publish a command to each to end after its running tasks.
--
-- The command is not stored: a worker that is not subscribed never receives it. `heard` is the number of subscribers among all
-- workers.
--
-- writes   control
-- KEYS     control
-- ARGV     each     (worker bytes)
-- returns each  asked    (heard int)  asked to stop: the worker ends after its running tasks
--               unheard  no worker listens
-- include: keys, publish_command
if #ARGV < 1 or #ARGV > 1000 then return redis.error_reply('ERR it takes 1 to 1000 workers; nothing was changed') end
local outcomes = {}
for i, worker in ipairs(ARGV) do
  local heard = publish_command('shutdown', {}, {worker})
  outcomes[i] = heard > 0 and {'asked', heard} or 'unheard'
end
return outcomes
