-- Celery: what workers are told by pub/sub (kombu/pidbox.py 5.7, celery/worker/control.py 5.7). Nothing is kept of it.
-- needs    control
-- gives    tell  publishes a command, for all workers or for those named; how many listen
local function tell(method, arguments, workers)
  local body = cjson.encode({method = method, arguments = arguments, destination = workers or cjson.null})
  return redis.call('PUBLISH', control, cjson.encode({
    body = body, ['content-type'] = 'application/json', ['content-encoding'] = 'utf-8', headers = {clock = 0},
    properties = {delivery_info = {exchange = 'celery.pidbox', routing_key = ''}, delivery_tag = 'rqtui', priority = 0},
  }))
end
