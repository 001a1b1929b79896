-- bullmq: how workers are woken.
-- needs    a door
-- gives    wake
local function is_held(to) return to.is_paused or to.most ~= nil and to.running >= to.most end
local function wake(to) -- without a marker workers sleep on for seconds
  if not is_held(to) then redis.call('ZADD', to.keys.marker, 0, '0') end
end
