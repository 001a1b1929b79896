-- Celery: the first write of what takes from the lists of a queue. It takes nothing out of the shortest list: where that is denied, nothing
-- was changed.
-- needs    lists lengths
-- gives    free_room  and HOLE, which no message is
local HOLE = '\1a hole'
local function free_room()
  local shortest = 1
  for i in ipairs(lists) do
    if lengths[i] < lengths[shortest] then shortest = i end
  end
  redis.call('LREM', lists[shortest][1], 1, HOLE)
end
