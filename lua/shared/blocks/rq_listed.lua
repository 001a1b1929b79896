-- rq: where ids stand in the list of a queue. One id is looked for among at least 100 000 from each end, many among 2500.
-- needs    queued rows
-- gives    length reach positions
local length, reach, seen_at = redis.call('LLEN', queued), rows > 40 and 2500 or math.floor(200000 / math.max(2, rows)), nil
local function look() -- for many, one look at both ends is cheaper than a search each
  seen_at = {}
  for _, from in ipairs({0, math.max(reach, length - reach)}) do
    for i, id in ipairs(redis.call('LRANGE', queued, from, from == 0 and reach - 1 or -1)) do
      seen_at[id] = seen_at[id] or {}
      table.insert(seen_at[id], from + i - 1)
    end
  end
end
local function positions(id)
  if rows > 40 then
    if not seen_at then look() end
    return seen_at[id] or {}
  end
  local found = redis.call('LPOS', queued, id, 'COUNT', 0, 'MAXLEN', reach)
  for _, at in ipairs(length > reach and redis.call('LPOS', queued, id, 'RANK', -1, 'COUNT', 0, 'MAXLEN', reach) or {}) do
    if at >= reach then found[#found + 1] = at end
  end
  return found
end
