-- Run a read command, and return its reply; nil if the key has another type, because another program uses it. `tostring` is needed
-- for fakeredis, whose error texts are no Lua strings.
--
-- gives    read
local function read(...)
  local reply = redis.pcall(...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  return not string.find(tostring(reply.err), 'WRONGTYPE', 1, true) and redis.call(...) or nil
end
