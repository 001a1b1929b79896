-- Publish a remote control command to workers (kombu/pidbox.py 5.7, celery/worker/control.py 5.7). Redis does not store it.
--
-- needs    control
-- gives    publish_command  publishes to the named workers, or to all; returns the number of subscribers
local function publish_command(method, arguments, workers)
  local body = cjson.encode({method = method, arguments = arguments, destination = workers or cjson.null})
  return redis.call('PUBLISH', control, cjson.encode({
    body = body, ['content-type'] = 'application/json', ['content-encoding'] = 'utf-8', headers = {clock = 0},
    properties = {delivery_info = {exchange = 'celery.pidbox', routing_key = ''}, delivery_tag = 'rqtui', priority = 0},
  }))
end
