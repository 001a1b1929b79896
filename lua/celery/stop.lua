-- Stop workers: each is told to end after the tasks that it runs.
--
-- Nothing is kept: who does not listen never learns it. `heard` is how many listen, of all workers.
--
-- writes   control
-- KEYS     control  channel  that of the workers' mailbox
-- ARGV     each     (worker bytes)
-- returns each  asked    (heard int)  asked to stop: it ends after its tasks
--               unheard  no worker listens
local control = KEYS[1]
if #ARGV < 1 or #ARGV > 1000 then return redis.error_reply('ERR it takes 1 to 1000 workers; nothing was changed') end
-- block: celery_tell
local function tell(method, arguments, workers)
  local body = cjson.encode({method = method, arguments = arguments, destination = workers or cjson.null})
  return redis.call('PUBLISH', control, cjson.encode({
    body = body, ['content-type'] = 'application/json', ['content-encoding'] = 'utf-8', headers = {clock = 0},
    properties = {delivery_info = {exchange = 'celery.pidbox', routing_key = ''}, delivery_tag = 'rqtui', priority = 0},
  }))
end
-- end
local words = {}
for i, worker in ipairs(ARGV) do
  local heard = tell('shutdown', {}, {worker})
  words[i] = heard > 0 and {'asked', heard} or 'unheard'
end
return words
