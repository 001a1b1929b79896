-- Read the type of a key.
--
-- gives    type_of
local function type_of(key) -- the reply is a table, or a string in fakeredis
  local found = redis.call('TYPE', key)
  return type(found) == 'table' and found.ok or found
end
