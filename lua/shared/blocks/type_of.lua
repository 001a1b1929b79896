-- The type of a key
--
-- gives    type_of
local function type_of(key) -- a table, or a string where Redis is played
  local found = redis.call('TYPE', key)
  return type(found) == 'table' and found.ok or found
end
