-- Find the list of a priority (kombu/transport/redis.py 5.7, `priority`).
--
-- needs    lists
-- gives    find_list  returns the index of the list in `lists`
local function find_list(priority)
  local found = #lists
  for i, list in ipairs(lists) do
    if tonumber(list[2]) <= priority then found = i end
  end
  return found
end
