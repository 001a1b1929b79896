-- Publish a remote control command to workers (kombu/pidbox.py 5.7, celery/worker/control.py 5.7). Redis does not store it.
--
-- With the name of a `reply_list`, each worker adds its reply to that list. Kombu delivers a message for the exchange without a name
-- to the list that its routing key names (`basic_publish`, kombu/transport/virtual/base.py 5.7). The reply has the `ticket`.
--
-- needs    control
-- gives    publish_command  publishes to the named workers, or to all; returns the number of subscribers
local function publish_command(method, arguments, workers, reply_list, ticket)
  local body = cjson.encode({
    method = method, arguments = arguments, destination = workers or cjson.null, ticket = ticket,
    reply_to = reply_list and {exchange = '', routing_key = reply_list} or nil,
  })
  return redis.call('PUBLISH', control, cjson.encode({
    body = body, ['content-type'] = 'application/json', ['content-encoding'] = 'utf-8', headers = {clock = 0},
    properties = {delivery_info = {exchange = 'celery.pidbox', routing_key = ''}, delivery_tag = 'rqtui', priority = 0},
  }))
end
