-- Check whether a key has the type that the command reads. A key of another program is left alone and counts as empty.
--
-- gives    is_sound
local function is_sound(command, key) -- any other error ends the script
  local reply = redis.pcall(command, key)
  return type(reply) == 'number' or not string.find(tostring(reply.err), 'WRONGTYPE', 1, true) and redis.call(command, key) ~= nil
end
