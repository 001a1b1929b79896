-- Remove ids from a list by their positions.
--
-- gives    remove_at  `count` is the length of the list before `pushed` ids were added at its head
local function remove_at(key, count, spots, pushed) -- a search per id would cost more
  local near, far = 0, 0
  for _, at in ipairs(spots) do
    redis.call('LSET', key, at + pushed, '')
    if at * 2 < count then near = near + 1 else far = far + 1 end
  end
  if near > 0 then redis.call('LREM', key, near, '') end
  if far > 0 then redis.call('LREM', key, -far, '') end
end
