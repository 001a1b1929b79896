-- Promote jobs that wait for a time or for other jobs: they run now.
--
-- A job that is due while a scheduler holds the lock needs force: the scheduler may have read it already, and it would run twice.
--
-- moves    scheduled deferred ready_to_enqueue -> queued
-- writes   queues
-- derived  <prefix>:job:<id>
--          <prefix>:job:<id>:dependents
--          <prefix>:job::<id>:dependencies
-- KEYS     scheduled         zset    id by due (s)
--          deferred          zset    id by since when (s)
--          ready_to_enqueue  zset    id by since when (s)
--          queued            list    ids, the next one first
--          finished          zset    id by when it is forgotten (s)
--          failed            zset    id by when it is forgotten (s)
--          canceled          zset    id by since when (s)
--          queues            set     keys of all queues
--          lock              string  held by a scheduler of RQ
-- ARGV     prefix     str   before all keys: rq
--          now_ms?    int   a test's clock; the server's when empty
--          force?     bool  even when a scheduler is about to move it
--          each       (id bytes)
-- returns each  moved        promoted
--               due          it is due, and a scheduler moves it within a second; force it where that one hangs
--               wrong_place  (place str)  it waits for nothing
--               ghost        its hash is gone: it cannot run, and can be deleted
--               limited      it has a rate limit, whose slots only RQ may give
--               gone         no such job
local scheduled, deferred, ready_to_enqueue, queued, finished, failed, canceled, queues, lock =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local force = ARGV[3] == '1'
local scalars, columns = 3, 1
local registries = {scheduled = scheduled, deferred = deferred, ready_to_enqueue = ready_to_enqueue, finished = finished,
  failed = failed, canceled = canceled}
for _, key in pairs(registries) do redis.call('ZCARD', key) end
redis.call('SCARD', queues)
local is_locked = redis.call('GET', lock)
-- block: rq_batch, rq_clock, rq_written, rq_fields, rq_listed, rq_stands, rq_parents, rq_queue_up
local rows, prefix = (#ARGV - scalars) / columns, ARGV[1]
if rows < 1 or rows > 1000 or rows ~= math.floor(rows) or prefix == '' then
  return redis.error_reply('ERR it takes the prefix, and 1 to 1000 rows, each with all of its columns; nothing was changed')
end
if #ARGV[2] > 13 or string.find(ARGV[2], '%D') then
  return redis.error_reply('ERR now_ms is a whole number; nothing was changed')
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[2]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local function written(ms) -- 2026-11-22T04:43:55.938000Z, by the calendar that begins in March
  local days, rest = math.floor(ms / 86400000) + 719468, ms % 86400000
  local era = math.floor(days / 146097)
  local day = days - era * 146097
  local year = math.floor((day - math.floor(day / 1460) + math.floor(day / 36524) - math.floor(day / 146096)) / 365)
  day = day - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  local month = math.floor((5 * day + 2) / 153)
  day = day - math.floor((153 * month + 2) / 5) + 1
  year, month = year + era * 400 + (month > 9 and 1 or 0), month > 9 and month - 9 or month + 3
  local hour, minute, second = math.floor(rest / 3600000), math.floor(rest / 60000) % 60, math.floor(rest / 1000) % 60
  return string.format('%04d-%02d-%02dT%02d:%02d:%02d.%03d000Z', year, month, day, hour, minute, second, rest % 1000)
end
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
local function leave_parents(id)
  local parents = redis.pcall('SMEMBERS', prefix .. ':job::' .. id .. ':dependencies')
  for _, parent in ipairs(parents.err and {} or parents) do
    redis.pcall('SREM', prefix .. ':job:' .. parent .. ':dependents', id)
  end
end
local function queue_up(id, ttl, is_first)
  local key = prefix .. ':job:' .. id
  redis.call(
    'HSET', key, 'status', 'queued', 'enqueued_at', written(now_ms), 'started_at', '', 'ended_at', '', 'worker_name', ''
  )
  local ttl_s = tonumber(string.match(ttl or '', '^%d+$') or 0)
  for _, each in ipairs({key, key .. ':dependents', prefix .. ':job::' .. id .. ':dependencies'}) do
    if ttl_s > 0 then redis.call('EXPIRE', each, ttl_s) else redis.call('PERSIST', each) end
  end
  redis.call(is_first and 'LPUSH' or 'RPUSH', queued, id)
end
-- end
local leaves, words, back, seen = {scheduled = true, deferred = true, ready_to_enqueue = true}, {}, {}, {}
for at = 4, #ARGV do
  local id = ARGV[at]
  local told = fields(id, 'status', 'rate_limit_key', 'ttl', 'enqueue_at_front', 'enqueue_at_front_on_retry', 'ended_at')
  local place = seen[id] or place_of(id, told and told[1] or '')
  if not place then -- who waits for a slot of its rate limit stands nowhere
    words[#words + 1] = told and told[1] == 'rate_limited' and 'limited' or 'gone'
  elseif not leaves[place] then
    words[#words + 1] = {'wrong_place', place}
  elseif not told then
    words[#words + 1] = 'ghost'
  elseif told[2] and told[2] ~= '' then
    words[#words + 1] = 'limited'
  elseif is_locked and not force and place == 'scheduled' and tonumber(redis.call('ZSCORE', scheduled, id)) * 1000 <= now_ms then
    words[#words + 1] = 'due'
  else
    words[#words + 1], seen[id] = 'moved', 'queued'
    back[#back + 1] = {id, told[3], told[4] == '1' or (told[5] == '1' and (told[6] or '') ~= '')}
  end
end
if #back == 0 then return words end

redis.call('ZREM', scheduled, '') -- frees nothing: a drain may go on over maxmemory
redis.call('SADD', queues, queued)
for _, job in ipairs(back) do
  queue_up(job[1], job[2], job[3])
  for place in pairs(leaves) do redis.call('ZREM', registries[place], job[1]) end
end
for _, job in ipairs(back) do leave_parents(job[1]) end
return words
