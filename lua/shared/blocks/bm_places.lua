-- bullmq: where a job stands; its hash does not say it. In a list an id is looked for near both ends.
-- needs    rows; sets and lists, keys by place
-- gives    lengths, of the lists; sight spots_of place_of
local lengths, seen_at = {}, {}
for _, key in pairs(sets) do redis.call('ZCARD', key) end
for name, key in pairs(lists) do lengths[name] = redis.call('LLEN', key) end
local reach = rows > 40 and 2500 or math.floor(200000 / math.max(2, rows)) -- from each end, in which an id is met however often
local sight = rows == 1 and 500000 or reach
local function look(name) -- for many, one look at both ends is cheaper than a search each
  seen_at[name] = {}
  for _, from in ipairs({0, math.max(reach, lengths[name] - reach)}) do
    for i, id in ipairs(redis.call('LRANGE', lists[name], from, from == 0 and reach - 1 or -1)) do
      local before = seen_at[name][id]
      seen_at[name][id] = before and {from + i - 1, unpack(before)} or {from + i - 1}
    end
  end
end
local function spots_of(name, id)
  local key, length = lists[name], lengths[name]
  if length == 0 then return {} end
  if rows > 40 then
    if not seen_at[name] then look(name) end
    return seen_at[name][id] or {}
  end
  local found = redis.call('LPOS', key, id, 'COUNT', 0, 'MAXLEN', reach)
  for _, at in ipairs(length > reach and redis.call('LPOS', key, id, 'RANK', -1, 'COUNT', 0, 'MAXLEN', reach) or {}) do
    if at >= reach then found[#found + 1] = at end
  end
  if #found == 0 and sight > reach and length > 2 * reach then
    found[1] = redis.call('LPOS', key, id, 'RANK', -1, 'MAXLEN', sight) or redis.call('LPOS', key, id, 'MAXLEN', sight) or nil
  end
  return found
end
local function place_of(id)
  for name, key in pairs(sets) do
    if redis.call('ZSCORE', key, id) then return name end
  end
  for name in pairs(lists) do
    if #spots_of(name, id) > 0 then return name end
  end
end
