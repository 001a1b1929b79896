-- The first write of a script that takes messages from the lists of a queue.
--
-- The write removes no entry, so Redis allows it over maxmemory. It goes to the shortest list, because LREM reads the whole list. If it is
-- denied, nothing was changed.
--
-- needs    lists lengths
-- gives    begin_drain
--          HOLE  a placeholder in a list that is never the bytes of a message
-- include: lengths
local HOLE = '\1a hole'
local function begin_drain()
  local shortest = 1
  for i in ipairs(lists) do
    if lengths[i] < lengths[shortest] then shortest = i end
  end
  redis.call('LREM', lists[shortest][1], 1, HOLE)
end
