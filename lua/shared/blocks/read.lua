-- A read of a key that another program may have taken: its answer, or nil where the key is of another type. What Redis is played by has
-- an error's text that is no string of Lua.
--
-- gives    read
local function read(...)
  local told = redis.pcall(...)
  if type(told) ~= 'table' or not told.err then return told end
  return not string.find(tostring(told.err), 'WRONGTYPE', 1, true) and redis.call(...) or nil
end
