-- rq: how ids leave the list of a queue.
-- needs    queued; length  of it, before anything was pushed
-- gives    take_out
local function take_out(spots, pushed) -- by position, since a search for each would cost more; `pushed` came before them
  local near, far = 0, 0
  for _, at in ipairs(spots) do
    redis.call('LSET', queued, at + pushed, '')
    if at * 2 < length then near = near + 1 else far = far + 1 end
  end
  if near > 0 then redis.call('LREM', queued, near, '') end
  if far > 0 then redis.call('LREM', queued, -far, '') end
end
