-- Remove entries from the list of a queue.
--
-- needs    queue near_index
--          length  of the list, before the script pushed entries
-- gives    take_out  takes rows {index, entry}; any of several equal entries may be removed
-- include: listed
local function take_out(spots)
  if #spots == 0 then return end
  table.sort(spots, function(a, b) return a[1] < b[1] end)
  -- The outermost entry is removed first, so that an ACL that denies LREM changes nothing.
  local side = spots[#spots][1] * 2 < length and 1 or -1
  redis.call('LREM', queue, side, table.remove(spots, side == 1 and 1 or #spots)[2])
  local near, far = 0, 0
  -- The others are marked by index and removed together, because a search for each would be slower.
  for _, spot in ipairs(spots) do
    local at = spot[1] - (side == 1 and 1 or 0)
    redis.call('LSET', queue, near_index(at, length - 1), '')
    if at * 2 < length then near = near + 1 else far = far + 1 end
  end
  if near > 0 then redis.call('LREM', queue, near, '') end
  if far > 0 then redis.call('LREM', queue, -far, '') end
end
