-- bullmq: what is to be known of a queue before a job enters one of the places from which workers take.
-- gives    doors, by the beginning of their keys; door
local doors = {}
local function door(q, keys) -- read before the first write, so that another program's key is an error
  if doors[q] then return doors[q] end
  if not keys then
    keys = {}
    for _, name in ipairs({'wait', 'paused', 'prioritized', 'active', 'meta', 'pc', 'marker', 'events'}) do keys[name] = q .. name end
  end
  local told = redis.call('HMGET', keys.meta, 'paused', 'concurrency', 'version', 'opts.maxLenEvents')
  local aside = redis.call('LLEN', keys.paused)
  redis.call('LLEN', keys.wait)
  redis.call('ZCARD', keys.prioritized)
  redis.call('ZCARD', keys.marker)
  redis.call('GET', keys.pc)
  redis.call('XLEN', keys.events)
  -- BullMQ 5 keeps what waits in `paused` while the queue is paused, and takes `wait` away when it is resumed. Both versions empty
  -- `paused` then, so that it is safe for who tells no version.
  local is_old = (tonumber(string.match(told[3] or '', '^bullmq:(%d+)') or '') or 5) < 6
  local is_aside = told[1] and (is_old or aside > 0)
  doors[q] = {
    keys = keys, is_paused = told[1] and true or false, most = tonumber(told[2] or ''), running = redis.call('LLEN', keys.active),
    list = is_aside and keys.paused or keys.wait, place = is_aside and 'paused' or 'wait', is_old = is_old, length = tonumber(told[4] or '') or 10000,
  }
  return doors[q]
end
