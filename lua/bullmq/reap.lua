-- Reap what dead workers held: jobs whose lock is over run again, as by the look of BullMQ for stalled jobs.
--
-- A job with a lock is left alone. A stall is counted; a second one makes the job fail when a worker takes it, unless a scheduler made
-- it. An id whose hash is gone is removed: a worker would run it without a name. `next_ms` is when the next lock may be over, -1 without
-- one.
--
-- moves    active -> wait | paused |
-- writes   marker events stalled
-- derived  <prefix>:<queue>:<id>
--          <prefix>:<queue>:<id>:lock
--          <prefix>:<queue>:repeat:<scheduler>
-- KEYS     prioritized  zset    id by priority × 2^32, then arrival
--          wait         list    ids, the next one last
--          paused       list    ids while BullMQ 5 is paused, the next one last
--          active       list    ids that run, the oldest run last
--          meta         hash    version, paused, limits
--          pc           string  the last number of a job with a priority
--          marker       zset    what workers wait for: there is work, or when there will be
--          events       stream  what happened
--          stalled      set     ids without a beat since the last look
--          repeat       zset    scheduler by its next time (ms)
-- ARGV     p        str    before all keys of the queue: bull:mail:
--          limit    int    how many jobs in this call, 1 to 1000
-- returns  moved  (moved int, ready int, dead int, next_ms int)  reaped
--          empty  (next_ms int)  every job that runs has its lock
local prioritized, wait, paused, active, meta, pc, marker, events, stalled =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local schedulers = KEYS[10] .. '' -- `repeat` is a word of Lua
local p, limit = ARGV[1], tonumber(ARGV[2])
if #ARGV < 2 or p == '' or string.sub(active, 1, #p) ~= p or not string.find(ARGV[2], '^%d+$') or limit < 1 or limit > 1000 then
  return redis.error_reply('ERR limit is 1 to 1000; nothing was changed')
end
redis.call('SCARD', stalled)
redis.call('ZCARD', schedulers)
local lists, lengths = {active = active}, {active = redis.call('LLEN', active)}
-- block: bm_job, bm_take_out, bm_door, bm_tell, bm_wake, bm_push
local function fields(id, ...)
  local key = p .. id
  return redis.pcall('HEXISTS', key, 'name') == 1 and redis.call('HMGET', key, ...) or nil
end
local function take_out(name, spots, pushed) -- by position, since a search for each would cost more; `pushed` came before them
  local key, near, far = lists[name], 0, 0
  for _, at in ipairs(spots) do
    redis.call('LSET', key, at + pushed, '')
    if at * 2 < lengths[name] then near = near + 1 else far = far + 1 end
  end
  if near > 0 then redis.call('LREM', key, near, '') end
  if far > 0 then redis.call('LREM', key, -far, '') end
end
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
local function push(to, id, rank, at_front)
  if rank > 0 then
    local count = at_front and 0 or redis.call('INCR', to.keys.pc) % 4294967296
    redis.call('ZADD', to.keys.prioritized, string.format('%.0f', rank * 4294967296 + count), id)
  elseif at_front then
    redis.call('RPUSH', to.list, id)
  else
    redis.call('LPUSH', to.list, id)
  end
  wake(to)
end
-- end
local own = door(p, {wait = wait, paused = paused, prioritized = prioritized, active = active, meta = meta, pc = pc, marker = marker, events = events})
local found, jobs, spots, next_ms = redis.call('LRANGE', active, -limit - 3999, -1), {}, {}, -1
for i = #found, 1, -1 do
  if #spots == limit then break end
  local left_ms = redis.call('PTTL', p .. found[i] .. ':lock')
  if left_ms == -2 then
    local told = fields(found[i], 'rjk')
    if told then jobs[#jobs + 1] = {found[i], told[1] or ''} end
    spots[#spots + 1] = lengths.active - #found + i - 1
  elseif left_ms >= 0 and (next_ms < 0 or left_ms < next_ms) then
    next_ms = left_ms
  end
end
if #spots == 0 then return {'empty', next_ms} end

redis.call('SREM', stalled, '') -- frees nothing: a drain may go on over maxmemory
own.running = own.running - #spots
for i = #jobs, 1, -1 do -- the oldest is the next one
  local id, scheduler = jobs[i][1], jobs[i][2]
  local is_scheduled = scheduler ~= '' and (redis.call('ZSCORE', schedulers, scheduler) or redis.call('EXISTS', schedulers .. ':' .. scheduler) == 1)
  if redis.call('HINCRBY', p .. id, 'stc', 1) > 1 and not is_scheduled then
    redis.call('HSET', p .. id, 'defa', 'job stalled more than allowable limit')
  end
  push(own, id, 0, true)
end
take_out('active', spots, 0)
for _, job in ipairs(jobs) do
  redis.call('SREM', stalled, job[1])
  tell(own, 'waiting', 'jobId', job[1], 'prev', 'active')
  tell(own, 'stalled', 'jobId', job[1])
end
return {'moved', #spots, #jobs, 0, #spots == limit and 0 or next_ms}
