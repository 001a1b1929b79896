-- Draw items to do that have no lock. A locked item is skipped, because a worker may still be working on it.
--
-- needs    todos limit prefix
-- gives    free  up to `limit` items
--          next_ms  the time to live of the lock that ends first, -1 without one
local free, next_ms = {}, nil
for _, spare in ipairs({0, 100}) do -- draw again, and more, if the first items had locks
  free = {}
  local drawn = redis.call('SRANDMEMBER', todos, limit + spare)
  for _, item in ipairs(drawn) do
    local left_ms = redis.call('PTTL', prefix .. item .. '-lock')
    if left_ms == -2 then
      if #free < limit then free[#free + 1] = item end
    elseif left_ms ~= -1 then
      next_ms = math.min(next_ms or left_ms, left_ms)
    end
  end
  if #free == limit or #drawn < limit then break end
end
next_ms = next_ms or -1
