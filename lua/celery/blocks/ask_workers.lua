-- Publish commands to workers, which reply to a list of their own that expires after an hour.
--
-- A worker adds its reply with LPUSH, which keeps the time to live of a list that exists. So the list has an empty first entry, and a
-- reply that comes too late is deleted, too.
--
-- needs    prefix
--          reply
--          publish_command
-- gives    ask_workers  publishes pairs of a method and its arguments to the named workers, or to all; a reply has its method as ticket.
--                       Returns the number of subscribers
if not string.find(reply, '%.pidbox$') then
  return redis.error_reply('ERR reply is the name of a list that ends with .pidbox; nothing was changed')
end
local function ask_workers(commands, workers)
  local list, heard = prefix .. reply, 0
  redis.call('LREM', list, 0, '') -- fails if another program uses the key, and lets the script finish over maxmemory
  redis.call('RPUSH', list, '')
  redis.call('EXPIRE', list, 3600)
  for _, command in ipairs(commands) do heard = publish_command(command[1], command[2], workers, reply, command[1]) end
  if heard == 0 then redis.call('LREM', list, 0, '') end
  return heard
end
