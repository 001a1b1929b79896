-- safe_pop: where entries are in the list, and how often an id stands there.
-- needs    entries; length  of the list
-- gives    standing, once `stands` was asked; index_of stands
local reach, indexes, standing = math.floor(200000 / #ARGV), nil, nil
local function look() -- at both ends: where entries are, and how often an id stands there
  indexes, standing = {}, {}
  for _, from in ipairs({0, math.max(2500, length - 2500)}) do
    for i, entry in ipairs(redis.call('LRANGE', entries, from, from == 0 and 2499 or -1)) do
      local own = string.sub(entry, 1, (string.find(entry, '|', 1, true) or 0) - 1)
      indexes[entry], standing[own] = from + i - 1, (standing[own] or 0) + 1
    end
  end
end
local function index_of(entry, rank) -- for many, one look is cheaper than a search each
  if #ARGV > 40 and not indexes then look() end
  return rank == 1 and indexes and indexes[entry] or redis.call('LPOS', entries, entry, 'RANK', rank, 'MAXLEN', reach)
    or length > reach and redis.call('LPOS', entries, entry, 'RANK', -rank, 'MAXLEN', reach)
end
local function stands(id)
  if not standing then look() end
  return standing[id] or 0
end
