-- Read the state of a queue that a job will enter, and the types of its keys.
--
-- gives    read_queue
local queues = {}
local function read_queue(q, keys) -- call this before the first write: a key of another type is an error
  if queues[q] then return queues[q] end
  if not keys then
    keys = {}
    for _, name in ipairs({'wait', 'paused', 'prioritized', 'active', 'meta', 'pc', 'marker', 'events'}) do keys[name] = q .. name end
  end
  local values = redis.call('HMGET', keys.meta, 'paused', 'concurrency', 'version', 'opts.maxLenEvents')
  local aside = redis.call('LLEN', keys.paused)
  redis.call('LLEN', keys.wait)
  redis.call('ZCARD', keys.prioritized)
  redis.call('ZCARD', keys.marker)
  redis.call('GET', keys.pc)
  redis.call('XLEN', keys.events)
  -- BullMQ 5 keeps waiting jobs in `paused` while the queue is paused, and deletes `wait` when it is resumed. Both versions empty
  -- `paused` at that time, so a queue without a version is treated as one of BullMQ 5.
  local is_old = (tonumber(string.match(values[3] or '', '^bullmq:(%d+)') or '') or 5) < 6
  local is_aside = values[1] and (is_old or aside > 0)
  queues[q] = {
    keys = keys, is_paused = values[1] and true or false, most = tonumber(values[2] or ''), running = redis.call('LLEN', keys.active),
    list = is_aside and keys.paused or keys.wait, place = is_aside and 'paused' or 'wait', is_old = is_old, length = tonumber(values[4] or '') or 10000,
  }
  return queues[q]
end
