-- timeout_sets: the lock of an item.
-- needs    prefix
-- gives    lock_of
local function lock_of(item) -- how long it lasts (-1 for ever, -2 there is none, -3 no lock but another key) and what it says
  local name = prefix .. item .. '-lock'
  local lasts_ms = redis.call('PTTL', name)
  local says = lasts_ms == -2 and '' or redis.pcall('GET', name)
  if type(says) ~= 'string' then return -3, '' end
  return lasts_ms, says
end
