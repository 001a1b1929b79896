-- Wake the workers of a queue, unless it is paused or at its limit.
--
-- gives    wake_workers
-- include: read_queue
local function is_held(to) return to.is_paused or to.most ~= nil and to.running >= to.most end
local function wake_workers(to) -- without a marker, workers sleep for seconds more
  if not is_held(to) then redis.call('ZADD', to.keys.marker, 0, '0') end
end
