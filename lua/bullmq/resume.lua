-- Resume a queue: its workers take jobs again, at once.
--
-- What stands in `paused` goes before what stands in `wait`: it is older. Also where the queue is not paused, and jobs were left there
-- by an upgrade. Nothing is lost of either, as it is when BullMQ 5 resumes a queue into which BullMQ 6 put jobs.
--
-- writes   wait paused meta marker events
-- KEYS     delayed      zset    id by due (ms × 4096)
--          wait         list    ids, the next one last
--          paused       list    ids while BullMQ 5 is paused, the next one last
--          prioritized  zset    id by priority × 2^32, then arrival
--          active       list    ids that run, the oldest run last
--          meta         hash    version, paused, limits
--          pc           string  the last number of a job with a priority
--          marker       zset    what workers wait for: there is work, or when there will be
--          events       stream  what happened
-- ARGV     p  str    before all keys of the queue: bull:mail:
-- returns  resumed  resumed
--          already  it is not paused, and no job was left in paused
local delayed, wait, paused, prioritized, active, meta, pc, marker, events =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local p = ARGV[1]
if #ARGV < 1 or p == '' or string.sub(meta, 1, #p) ~= p then
  return redis.error_reply('ERR it takes what the keys begin with; nothing was changed')
end
redis.call('ZCARD', delayed)
-- block: bm_door, bm_tell, bm_wake, bm_merge, bm_alarm
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
local function tell(to, event, ...) -- a verb is not refused for an event that cannot be told
  redis.pcall('XADD', to.keys.events, 'MAXLEN', '~', string.format('%.0f', to.length), '*', 'event', event, ...)
end
local function is_held(to) return to.is_paused or to.most ~= nil and to.running >= to.most end
local function wake(to) -- without a marker workers sleep on for seconds
  if not is_held(to) then redis.call('ZADD', to.keys.marker, 0, '0') end
end
local function merge(newer, older, into) -- what was older stays next; the shorter one is moved, and a name is never taken away from a list
  local count, rest = redis.call('LLEN', newer), redis.call('LLEN', older)
  local from, to = newer, older
  if count > rest then from, to = older, newer end
  while redis.call('LLEN', from) > 0 do
    if from == older then
      local ids = redis.call('LRANGE', from, 0, 4999) -- the newest of the older ones stand behind all that are newer
      redis.call('RPUSH', to, unpack(ids))
      redis.call('LTRIM', from, #ids, -1)
    else
      local ids = redis.call('LRANGE', from, -5000, -1)
      for i = 1, math.floor(#ids / 2) do ids[i], ids[#ids + 1 - i] = ids[#ids + 1 - i], ids[i] end
      redis.call('LPUSH', to, unpack(ids))
      redis.call('LTRIM', from, 0, -#ids - 1)
    end
  end
  if to ~= into and count + rest > 0 then redis.call('RENAMENX', to, into) end
end
local function alarm() -- workers sleep until the first is due
  local score = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2]
  if score then redis.call('ZADD', marker, string.format('%.0f', math.floor(tonumber(score) / 4096)), '1') end
end
-- end
local own = door(p, {wait = wait, paused = paused, prioritized = prioritized, active = active, meta = meta, pc = pc, marker = marker, events = events})
if not own.is_paused and redis.call('LLEN', paused) == 0 then return {'already'} end

redis.call('HDEL', meta, 'paused') -- it frees: this goes on over maxmemory
merge(wait, paused, wait)
own.is_paused = false
if redis.call('LLEN', wait) + redis.call('ZCARD', prioritized) > 0 then wake(own) else alarm() end
tell(own, 'resumed')
return {'resumed'}
