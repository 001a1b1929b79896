-- Limit a queue: so many jobs at once, or so many per time, over all its workers; 0 takes a limit away.
--
-- A limit that is not given stays as it is. One of so many per time is two numbers, and begins with the next window.
--
-- writes   meta marker
-- KEYS     wait         list    ids, the next one last
--          paused       list    ids while BullMQ 5 is paused, the next one last
--          prioritized  zset    id by priority × 2^32, then arrival
--          active       list    ids that run, the oldest run last
--          meta         hash    version, paused, limits
--          pc           string  the last number of a job with a priority
--          marker       zset    what workers wait for: there is work, or when there will be
--          events       stream  what happened
-- ARGV     p             str    before all keys of the queue: bull:mail:
--          concurrency?  int    jobs at once
--          max?          int    jobs in a window of time
--          duration_ms?  int    of so many ms
-- returns  limited  limited
local wait, paused, prioritized, active, meta, pc, marker, events =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local p = ARGV[1]
for at = 2, 4 do
  if #ARGV < 4 or #ARGV[at] > 12 or string.find(ARGV[at], '%D') then
    return redis.error_reply('ERR concurrency, max and duration_ms are whole numbers; nothing was changed')
  end
end
local concurrency, max, duration_ms = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
if p == '' or string.sub(meta, 1, #p) ~= p then
  return redis.error_reply('ERR it takes what the keys begin with; nothing was changed')
end
if not concurrency and not max then
  return redis.error_reply('ERR a limit is given as concurrency, or as max and duration_ms; 0 takes it away; nothing was changed')
end
if (max or 0) > 0 and (duration_ms or 0) == 0 or duration_ms and not max then
  return redis.error_reply('ERR max and duration_ms are given together: so many jobs in so many ms; nothing was changed')
end
-- block: bm_door, bm_wake
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
local function is_held(to) return to.is_paused or to.most ~= nil and to.running >= to.most end
local function wake(to) -- without a marker workers sleep on for seconds
  if not is_held(to) then redis.call('ZADD', to.keys.marker, 0, '0') end
end
-- end
local own = door(p, {wait = wait, paused = paused, prioritized = prioritized, active = active, meta = meta, pc = pc, marker = marker, events = events})

redis.call('HDEL', meta, '') -- frees nothing: this goes on over maxmemory
if concurrency == 0 then
  redis.call('HDEL', meta, 'concurrency')
elseif concurrency then
  redis.call('HSET', meta, 'concurrency', string.format('%.0f', concurrency))
end
if max == 0 then
  redis.call('HDEL', meta, 'max', 'duration')
elseif max then
  redis.call('HSET', meta, 'max', string.format('%.0f', max), 'duration', string.format('%.0f', duration_ms))
end
if concurrency then own.most = concurrency > 0 and concurrency or nil end
if redis.call('LLEN', wait) + redis.call('ZCARD', prioritized) > 0 then wake(own) end -- they sleep while the limit is reached
return {'limited'}
