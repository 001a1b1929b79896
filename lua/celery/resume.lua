-- Resume a queue: workers are told to take from it, all that listen.
--
-- `heard` is how many listen. One that never took from this queue does from now on, as far as its program knows the queue.
--
-- writes   control
-- KEYS     control  channel  that of the workers' mailbox
-- ARGV     queue    str      its name
-- returns  resumed  (heard int)  resumed: all workers that listen take from it
--          unheard  no worker listens: nothing is resumed
local control, queue = KEYS[1], ARGV[1]
if #ARGV < 1 or queue == '' then return redis.error_reply('ERR it takes the name of a queue; nothing was changed') end
-- block: celery_tell
local function tell(method, arguments, workers)
  local body = cjson.encode({method = method, arguments = arguments, destination = workers or cjson.null})
  return redis.call('PUBLISH', control, cjson.encode({
    body = body, ['content-type'] = 'application/json', ['content-encoding'] = 'utf-8', headers = {clock = 0},
    properties = {delivery_info = {exchange = 'celery.pidbox', routing_key = ''}, delivery_tag = 'rqtui', priority = 0},
  }))
end
-- end
local heard = tell('add_consumer', {queue = queue})
return heard > 0 and {'resumed', heard} or {'unheard'}
