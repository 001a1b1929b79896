-- sidekiq: how entries leave the list of a queue.
-- needs    queue; length  of it, before anything was pushed to its head
-- gives    take_out  of {index, entry}; of equal ones any leaves
local function take_out(spots)
  if #spots == 0 then return end
  table.sort(spots, function(a, b) return a[1] < b[1] end)
  local side = spots[#spots][1] * 2 < length and 1 or -1 -- the outermost by its bytes: where that is denied, nothing was changed
  redis.call('LREM', queue, side, table.remove(spots, side == 1 and 1 or #spots)[2])
  local near, far = 0, 0
  for _, spot in ipairs(spots) do -- the others by their index, since a search for each would cost more
    local at = spot[1] - (side == 1 and 1 or 0)
    redis.call('LSET', queue, at * 2 < length and at or at - length + 1, '')
    if at * 2 < length then near = near + 1 else far = far + 1 end
  end
  if near > 0 then redis.call('LREM', queue, near, '') end
  if far > 0 then redis.call('LREM', queue, -far, '') end
end
