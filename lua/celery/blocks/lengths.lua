-- Read the lengths of the lists of a queue, before the first write.
--
-- needs    lists
-- gives    lengths  by index of the list
local lengths = {}
for i, list in ipairs(lists) do lengths[i] = redis.call('LLEN', list[1]) end
