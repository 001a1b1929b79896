-- Reschedule scheduled jobs: when they are due, in whole seconds.
--
-- A job that is due while a scheduler holds the lock is left to it: it may have read the job already.
--
-- moves    scheduled -> scheduled
-- derived  <prefix>:job:<id>
-- KEYS     scheduled         zset    id by due (s)
--          deferred          zset    id by since when (s)
--          ready_to_enqueue  zset    id by since when (s)
--          queued            list    ids, the next one first
--          finished          zset    id by when it is forgotten (s)
--          failed            zset    id by when it is forgotten (s)
--          canceled          zset    id by since when (s)
--          lock              string  held by a scheduler of RQ
-- ARGV     prefix     str   before all keys: rq
--          now_ms?    int   a test's clock; the server's when empty
--          delay_ms?  int   due so long from now
--          due_ms?    int   due then; now when both are empty
--          each       (id bytes)
-- returns each  moved        rescheduled
--               due          it is due, and a scheduler moves it within a second
--               wrong_place  (place str)  it is not scheduled
--               limited      it waits for a slot of its rate limit, which only RQ may give
--               gone         no such job
local scheduled, deferred, ready_to_enqueue, queued, finished, failed, canceled, lock =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local scalars, columns = 4, 1
local registries = {scheduled = scheduled, deferred = deferred, ready_to_enqueue = ready_to_enqueue, finished = finished,
  failed = failed, canceled = canceled}
for _, key in pairs(registries) do redis.call('ZCARD', key) end
local is_locked = redis.call('GET', lock)
-- block: rq_batch, rq_clock, rq_fields, rq_listed, rq_stands
local rows, prefix = (#ARGV - scalars) / columns, ARGV[1]
if rows < 1 or rows > 1000 or rows ~= math.floor(rows) or prefix == '' then
  return redis.error_reply('ERR it takes the prefix, and 1 to 1000 rows, each with all of its columns; nothing was changed')
end
if #ARGV[2] > 13 or string.find(ARGV[2], '%D') then
  return redis.error_reply('ERR now_ms is a whole number; nothing was changed')
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[2]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local function fields(id, ...)
  local key = prefix .. ':job:' .. id
  return redis.pcall('HEXISTS', key, 'data') == 1 and redis.call('HMGET', key, ...) or nil
end
local length, seen_at = redis.call('LLEN', queued), nil
local reach = rows > 40 and 2500 or math.floor(200000 / math.max(2, rows)) -- from each end, in which an id is met however often
local sight = rows == 1 and 500000 or reach
local function look() -- for many, one look at both ends is cheaper than a search each
  seen_at = {}
  for _, from in ipairs({0, math.max(reach, length - reach)}) do
    for i, id in ipairs(redis.call('LRANGE', queued, from, from == 0 and reach - 1 or -1)) do
      local before = seen_at[id]
      seen_at[id] = not before and from + i - 1 or {from + i - 1, unpack(type(before) == 'table' and before or {before})}
    end
  end
end
local function positions(id)
  if rows > 40 then
    if not seen_at then look() end
    local at = seen_at[id]
    return type(at) == 'table' and at or {at}
  end
  local found = redis.call('LPOS', queued, id, 'COUNT', 0, 'MAXLEN', reach)
  for _, at in ipairs(length > reach and redis.call('LPOS', queued, id, 'RANK', -1, 'COUNT', 0, 'MAXLEN', reach) or {}) do
    if at >= reach then found[#found + 1] = at end
  end
  if #found == 0 and sight > reach and length > 2 * reach then
    found[1] = redis.call('LPOS', queued, id, 'MAXLEN', sight) or redis.call('LPOS', queued, id, 'RANK', -1, 'MAXLEN', sight) or nil
  end
  return found
end
local function place_of(id, status)
  local named = status == 'stopped' and 'failed' or status
  if registries[named] and redis.call('ZSCORE', registries[named], id) then return named end
  for _, name in ipairs({'scheduled', 'deferred', 'ready_to_enqueue', 'finished', 'failed', 'canceled'}) do
    if registries[name] and redis.call('ZSCORE', registries[name], id) then return name end
  end
  if status == 'started' then return 'started' end
  return #positions(id) > 0 and 'queued' or nil
end
-- end
for at = 3, 4 do
  if #ARGV[at] > 13 or string.find(ARGV[at], '%D') then
    return redis.error_reply('ERR delay_ms and due_ms are whole numbers; nothing was changed')
  end
end
local delay_ms, due_ms = tonumber(ARGV[3]), tonumber(ARGV[4])
local due = string.format('%.0f', math.ceil((delay_ms and now_ms + delay_ms or due_ms or now_ms) / 1000))
local words, dues = {}, {}
for at = 5, #ARGV do
  local id = ARGV[at]
  local score = tonumber(redis.call('ZSCORE', scheduled, id) or nil)
  if score and is_locked and score * 1000 <= now_ms then
    words[#words + 1] = 'due'
  elseif score then
    words[#words + 1] = 'moved'
    dues[#dues + 1], dues[#dues + 2] = due, id
  else
    local told = fields(id, 'status')
    local place = place_of(id, told and told[1] or '')
    words[#words + 1] = place and {'wrong_place', place} or told and told[1] == 'rate_limited' and 'limited' or 'gone'
  end
end
if #dues == 0 then return words end

redis.call('ZREM', scheduled, '') -- frees nothing: a drain may go on over maxmemory
redis.call('ZADD', scheduled, unpack(dues))
return words
