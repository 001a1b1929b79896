-- Add a ready job to a queue, and wake its workers.
--
-- needs    wake_workers
-- gives    add_ready
-- include: wake_workers
local function add_ready(to, id, rank, at_front)
  if rank > 0 then
    local count = at_front and 0 or redis.call('INCR', to.keys.pc) % 4294967296
    redis.call('ZADD', to.keys.prioritized, string.format('%.0f', rank * 4294967296 + count), id)
  elseif at_front then
    redis.call('RPUSH', to.list, id)
  else
    redis.call('LPUSH', to.list, id)
  end
  wake_workers(to)
end
