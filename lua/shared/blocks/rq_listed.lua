-- rq: where ids stand in the list of a queue. One id is looked for among 500 000 from each end, several among 200 000 by their
-- number, more than 40 among 2500.
-- needs    queued rows
-- gives    length sight positions
local length, seen_at = redis.call('LLEN', queued), nil
local reach = rows > 40 and 2500 or math.floor(200000 / math.max(2, rows)) -- from each end, in which an id is met however often
local sight = rows == 1 and 500000 or reach
local function look() -- for many, one look at both ends is cheaper than a search each
  seen_at = {}
  for _, from in ipairs({0, math.max(reach, length - reach)}) do
    for i, id in ipairs(redis.call('LRANGE', queued, from, from == 0 and reach - 1 or -1)) do
      local before = seen_at[id]
      seen_at[id] = not before and from + i - 1 or {from + i - 1, unpack(type(before) == 'table' and before or {before})}
    end
  end
end
local function positions(id)
  if rows > 40 then
    if not seen_at then look() end
    local at = seen_at[id]
    return type(at) == 'table' and at or {at}
  end
  local found = redis.call('LPOS', queued, id, 'COUNT', 0, 'MAXLEN', reach)
  for _, at in ipairs(length > reach and redis.call('LPOS', queued, id, 'RANK', -1, 'COUNT', 0, 'MAXLEN', reach) or {}) do
    if at >= reach then found[#found + 1] = at end
  end
  if #found == 0 and sight > reach and length > 2 * reach then
    found[1] = redis.call('LPOS', queued, id, 'MAXLEN', sight) or redis.call('LPOS', queued, id, 'RANK', -1, 'MAXLEN', sight) or nil
  end
  return found
end
