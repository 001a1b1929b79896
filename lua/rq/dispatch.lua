-- Dispatch due jobs, as a scheduler of RQ does; where one holds the lock, they are left to it.
--
-- Its read and its write are two steps, so that a job moved in between would run twice. `next_ms` is the time until the next job is
-- due, or the lock ends; -1 without one.
--
-- moves    scheduled -> queued
-- writes   queues
-- derived  <prefix>:job:<id>
--          <prefix>:job:<id>:dependents
--          <prefix>:job::<id>:dependencies
-- KEYS     scheduled  zset    id by due (s)
--          queued     list    ids, the next one first
--          queues     set     keys of all queues
--          lock       string  held by a scheduler of RQ
-- ARGV     now_ms?    int  a test's clock; the server's when empty
--          prefix     str  before all keys: rq
--          limit      int  how many at most, 1 to 1000
-- returns  moved      (moved int, scheduled int, ready int, next_ms int)  dispatched
--          empty      (next_ms int)  nothing is due
--          scheduler  (next_ms int)  a scheduler of RQ holds the lock, and does it
local scheduled, queued, queues, lock = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local prefix, limit = ARGV[2], tonumber(ARGV[3])
if #ARGV < 3 or string.find(ARGV[1] .. ARGV[3], '%D') or #ARGV[1] > 13 or not limit or limit < 1 or limit > 1000 or prefix == '' then
  return redis.error_reply('ERR limit is 1 to 1000, now_ms a whole number, the prefix not empty; nothing was changed')
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
redis.call('SCARD', queues)
local ready, waits = redis.call('LLEN', queued), redis.call('ZCARD', scheduled)
if redis.call('GET', lock) then return {'scheduler', math.max(1000, redis.call('PTTL', lock))} end
-- block: rq_written, rq_fields, rq_queue_up
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
local function next_ms()
  local due = tonumber(redis.call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')[2])
  return due and math.max(0, math.ceil(due * 1000 - now_ms)) or -1
end
local due = redis.call('ZRANGEBYSCORE', scheduled, '-inf', string.format('%.3f', now_ms / 1000), 'LIMIT', 0, limit)
local jobs, gone, limited = {}, {}, 0
for _, id in ipairs(due) do
  local told = fields(id, 'rate_limit_key', 'ttl', 'enqueue_at_front', 'enqueue_at_front_on_retry', 'ended_at')
  if not told then
    gone[#gone + 1] = id -- its hash has expired: RQ drops it here, too
  elseif (told[1] or '') ~= '' then
    limited = limited + 1 -- only RQ may give the slots of a rate limit
  else
    jobs[#jobs + 1] = {id, told[2], told[3] == '1' or (told[4] == '1' and (told[5] or '') ~= '')}
  end
end
if #jobs + #gone == 0 then return {'empty', limited > 0 and -1 or next_ms()} end

redis.call('ZREM', scheduled, '') -- frees nothing: a drain may go on over maxmemory
redis.call('SADD', queues, queued)
for _, job in ipairs(jobs) do
  queue_up(job[1], job[2], job[3])
  redis.call('ZREM', scheduled, job[1])
end
for _, id in ipairs(gone) do redis.call('ZREM', scheduled, id) end
return {'moved', #jobs + #gone, waits - #jobs - #gone, ready, next_ms()}
