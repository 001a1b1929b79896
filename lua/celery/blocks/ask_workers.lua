-- Publish commands to workers, which reply to a list of their own that expires after an hour.
--
-- A worker adds its reply with LPUSH, which keeps the time to live of a list that exists. So the list has an empty first entry, and a
-- reply that comes too late is deleted, too.
--
-- needs    prefix
--          reply
--          publish_command
-- gives    ask_workers  publishes to the named workers, or to all: arguments by method; the ticket of a reply is the method.
--                       Returns the number of subscribers
if not string.find(reply, '^[%w.:_-]+%.pidbox$') or redis.call('EXISTS', prefix .. reply) == 1 then
  return redis.error_reply('ERR reply names a list that does not exist, and ends with .pidbox; nothing was changed')
end
local function ask_workers(commands, workers)
  local list, heard = prefix .. reply, 0
  redis.call('DEL', list) -- frees nothing, but lets the script finish over maxmemory
  redis.call('RPUSH', list, '')
  redis.call('EXPIRE', list, 3600)
  for method, arguments in pairs(commands) do heard = publish_command(method, arguments, workers, reply, method) end
  if heard == 0 then redis.call('DEL', list) end
  return heard
end
