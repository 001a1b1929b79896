-- Read the lock of an item.
--
-- needs    prefix
-- gives    read_lock
local function read_lock(item) -- its time to live (-1 without end, -2 no lock, -3 another program's key) and its text
  local name = prefix .. item .. '-lock'
  local left_ms = redis.call('PTTL', name)
  local text = left_ms == -2 and '' or redis.pcall('GET', name)
  if type(text) ~= 'string' then return -3, '' end
  return left_ms, text
end
