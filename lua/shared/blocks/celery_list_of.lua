-- Celery: the index of the list of a priority (kombu/transport/redis.py 5.7, `priority`).
-- needs    lists
-- gives    list_of
local function list_of(priority)
  local found = #lists
  for i, list in ipairs(lists) do
    if tonumber(list[2]) <= priority then found = i end
  end
  return found
end
