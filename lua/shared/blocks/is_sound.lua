-- Whether a key can hold jobs. Another program's key, of another type, holds none: it is read as empty and let be.
--
-- gives    is_sound
local function is_sound(command, key) -- any other error ends the script
  local told = redis.pcall(command, key)
  return type(told) == 'number' or not string.find(tostring(told.err), 'WRONGTYPE', 1, true) and redis.call(command, key) ~= nil
end
