-- Find the positions of ids in a list. From each end, 500 000 entries are searched for one id, 200 000 divided by their number for several,
-- and 2500 for more than 40.
--
-- needs    rows          the number of ids
-- gives    sight         up to so many entries from each end are searched for an id that occurs once
--          find_in_list  `rank` is 1 if the next job is the first of the list, -1 if it is the last
local reach = rows > 40 and 2500 or math.floor(200000 / math.max(2, rows)) -- ids per end of a list in which all occurrences are found
local sight, seen_at = rows == 1 and 500000 or reach, nil
local function scan(key, length) -- for many ids, reading both ends once is cheaper than one search per id
  local positions = {}
  for _, from in ipairs({0, math.max(reach, length - reach)}) do
    for i, id in ipairs(redis.call('LRANGE', key, from, from == 0 and reach - 1 or -1)) do
      local before, at = positions[id], from + i - 1
      if type(before) == 'table' then before[#before + 1] = at else positions[id] = before and {before, at} or at end
    end
  end
  return positions
end
local function find_in_list(key, length, id, rank)
  if length == 0 then return {} end
  if rows > 40 then
    seen_at = seen_at or {}
    seen_at[key] = seen_at[key] or scan(key, length)
    local at = seen_at[key][id]
    return type(at) == 'table' and at or {at}
  end
  local found = redis.call('LPOS', key, id, 'COUNT', 0, 'MAXLEN', reach)
  for _, at in ipairs(length > reach and redis.call('LPOS', key, id, 'RANK', -1, 'COUNT', 0, 'MAXLEN', reach) or {}) do
    if at >= reach then found[#found + 1] = at end
  end
  if #found == 0 and sight > reach and length > 2 * reach then
    found[1] = redis.call('LPOS', key, id, 'RANK', rank, 'MAXLEN', sight) or redis.call('LPOS', key, id, 'RANK', -rank, 'MAXLEN', sight) or nil
  end
  return found
end
