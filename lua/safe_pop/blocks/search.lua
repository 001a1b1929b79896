-- Find entries in the list, and count the entries of an id.
--
-- needs    entries
--          length  of the list
-- gives    index_of
--          entries_of  the number of entries of an id near both ends of the list
--          counts      these numbers by id, after the first call of `entries_of`
local reach, indexes, counts = math.floor(200000 / #ARGV), nil, nil
local function read_ends()
  indexes, counts = {}, {}
  for _, from in ipairs({0, math.max(2500, length - 2500)}) do
    for i, entry in ipairs(redis.call('LRANGE', entries, from, from == 0 and 2499 or -1)) do
      local own = string.sub(entry, 1, (string.find(entry, '|', 1, true) or 0) - 1)
      indexes[entry], counts[own] = from + i - 1, (counts[own] or 0) + 1
    end
  end
end
local function index_of(entry, rank) -- For many entries, one read of both ends is faster than a search for each.
  if #ARGV > 40 and not indexes then read_ends() end
  return rank == 1 and indexes and indexes[entry] or redis.call('LPOS', entries, entry, 'RANK', rank, 'MAXLEN', reach)
    or length > reach and redis.call('LPOS', entries, entry, 'RANK', -rank, 'MAXLEN', reach)
end
local function entries_of(id)
  if not counts then read_ends() end
  return counts[id] or 0
end
