-- Read the time and `silent_ms`, and check the arguments.
--
-- needs    argument_count  the number of arguments before the rows
--          ARGV[2]  silent_ms
-- gives    silent_ms
-- include: arguments, server_time
local silent_ms = tonumber(ARGV[2])
if not silent_ms then
  return redis.error_reply('ERR it takes ' .. argument_count .. ' arguments, whole numbers where the header says int; nothing was changed')
end
