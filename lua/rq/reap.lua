-- Reap what dead workers held: by the rules of RQ's own clean-up, without callbacks and webhooks.
--
-- A started job is late when its deadline is over. It is left alone while its execution beats, or its worker does, was born before
-- the job began, and still counts the job as its own. With retries left it is tried again, at once or after its interval; else it
-- fails, and those that wait for it and allow failures are enqueued. An entry of a job that has ended or is gone is removed.
--
-- A job in between is looked at a first time, which is noted as RQ notes it; a minute later it goes back to the head of the queue, not
-- to failed as RQ has it: nobody ran it. One that is gone or elsewhere by then leaves its id there: that is removed.
--
-- Jobs with a rate limit are left to RQ. `next_ms` is the time until the next one may be late, -1 without one.
--
-- moves    started -> queued | scheduled | failed |
--          intermediate -> queued |
-- writes   queues
-- derived  <prefix>:job:<id>
--          <prefix>:job:<id>:dependents
--          <prefix>:job::<id>:dependencies
--          <prefix>:results:<id>
--          <prefix>:executions:<id>
--          <prefix>:execution:<id>:<execution>
--          <prefix>:worker:<worker>
--          <prefix>:worker:<worker>:executions
--          <prefix>:queue:<origin>
--          <prefix>:deferred:<origin>
--          <prefix>:queue:<queue>:intermediate:first_seen:<id>
-- KEYS     started       zset  id:execution by deadline (s)
--          intermediate  list  ids between queue and start
--          queued        list  ids, the next one first
--          scheduled     zset  id by due (s)
--          failed        zset  id by when it is forgotten (s)
--          queues        set   keys of all queues
-- ARGV     now_ms?       int    a test's clock; the server's when empty
--          prefix        str    before all keys: rq
--          limit         int    how many at most, 1 to 1000
--          exc_string?   bytes  why a job failed, for its result: base64 of zlib of the text
-- returns  moved  (moved int, ready int, dead int, next_ms int)  reaped
--          empty  (next_ms int)  no dead worker holds any
local started, intermediate, queued, scheduled, failed, queues = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local prefix, limit, exc_string = ARGV[2], tonumber(ARGV[3]), ARGV[4]
if #ARGV < 4 or string.find(ARGV[1] .. ARGV[3], '%D') or #ARGV[1] > 13 or not limit or limit < 1 or limit > 1000 or prefix == '' then
  return redis.error_reply('ERR limit is 1 to 1000, now_ms a whole number, the prefix not empty; nothing was changed')
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
for _, key in ipairs({started, scheduled, failed}) do redis.call('ZCARD', key) end
redis.call('LLEN', queued)
redis.call('SCARD', queues)
local between = redis.call('LRANGE', intermediate, 0, 999)
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
local now_s, next_ms = now_ms / 1000, -1
local function again_in(ms)
  ms = math.max(1, math.ceil(ms))
  if next_ms < 0 or ms < next_ms then next_ms = ms end
end
local function is_held(id, member, worker, began)
  if redis.call('EXISTS', prefix .. ':execution:' .. member) == 1 then return true end
  local key = prefix .. ':worker:' .. worker
  local birth, current = unpack(redis.call('HMGET', key, 'birth', 'current_job'))
  if not birth or birth > began then return false end
  return current == id or redis.call('SISMEMBER', key .. ':executions', member) == 1
end
local function interval_s(left, intervals) -- as RQ counts: from the end of the list, the first one for all before
  local is_list, list = pcall(cjson.decode, intervals or '')
  if not is_list or type(list) ~= 'table' or #list == 0 then return 0 end
  return tonumber(list[math.max(#list - left, 0) + 1]) or 0
end

local plan = {} -- what is done, decided before the first write
local ready, dead = 0, 0
for _, member in ipairs(redis.call('ZRANGEBYSCORE', started, '-inf', '(' .. string.format('%.3f', now_s), 'LIMIT', 0, limit)) do
  local id = string.match(member, '^([^:]*)')
  local told = fields(id, 'status', 'rate_limit_key', 'ttl', 'worker_name', 'started_at', 'retries_left', 'retry_intervals',
    'enqueue_at_front_on_retry', 'failure_ttl')
  local left = told and tonumber(told[6] or '') or 0
  if not told or told[1] ~= 'started' then
    plan[#plan + 1] = {'drop', id, member, told and told[4]}
  elseif (told[2] or '') == '' and not is_held(id, member, told[4] or '', told[5] or '') then
    local wait_s = left > 0 and interval_s(left, told[7]) or 0
    local what = left <= 0 and 'fail' or wait_s > 0 and 'later' or 'again'
    plan[#plan + 1] = {what, id, member, told[4] or '', told[3], told[8] == '1', left - 1, wait_s, tonumber(told[9] or '') or 31536000}
    if what == 'again' then ready = ready + 1 elseif what == 'fail' then dead = dead + 1 end
  end
end
local first_seen = intermediate .. ':first_seen:'
local back, dropped, notes = {}, {}, {}
for _, id in ipairs(between) do
  if #plan + #back + #dropped >= limit then break end
  local told = fields(id, 'status', 'rate_limit_key', 'ttl')
  local since = told and tonumber(redis.pcall('GET', first_seen .. id) or nil)
  if not told or told[1] ~= 'queued' then
    dropped[#dropped + 1] = id
  elseif (told[2] or '') ~= '' then
    again_in(60000)
  elseif not since then
    notes[#notes + 1] = id
    again_in(60000)
  elseif now_s - since <= 60 then
    again_in((since + 60 - now_s) * 1000)
  else
    back[#back + 1], ready = {id, told[3]}, ready + 1
  end
end
local soonest = redis.call('ZRANGEBYSCORE', started, string.format('%.3f', now_s), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
if tonumber(soonest) and tonumber(soonest) < math.huge then again_in(tonumber(soonest) * 1000 - now_ms) end
local moved = #plan + #back + #dropped
if moved + #notes > 0 then redis.call('ZREM', failed, '') end -- frees nothing: a drain may go on over maxmemory
for _, id in ipairs(notes) do redis.call('SET', first_seen .. id, string.format('%.3f', now_s), 'EX', 86400, 'NX') end
if moved == 0 then return {'empty', next_ms} end

local function enqueue_dependents(id) -- those that wait for nothing else, and may run though this one failed
  local key = prefix .. ':job:' .. id .. ':dependents'
  for _, other in ipairs(redis.call('SMEMBERS', key)) do
    local told = fields(other, 'status', 'allow_dependency_failures', 'origin', 'enqueue_at_front', 'rate_limit_key')
    local is_met = told and told[1] == 'deferred' and told[2] == '1' and told[3] and (told[5] or '') == ''
    for _, parent in ipairs(is_met and redis.call('SMEMBERS', prefix .. ':job::' .. other .. ':dependencies') or {}) do
      local status = redis.call('HGET', prefix .. ':job:' .. parent, 'status')
      is_met = is_met and (not status or status == 'finished' or status == 'failed')
    end
    if is_met then
      redis.call('HSET', prefix .. ':job:' .. other, 'status', 'queued', 'enqueued_at', written(now_ms))
      redis.call(told[4] == '1' and 'LPUSH' or 'RPUSH', prefix .. ':queue:' .. told[3], other)
      redis.call('ZREM', prefix .. ':deferred:' .. told[3], other)
      redis.call('SREM', key, other)
    end
  end
end
redis.call('SADD', queues, queued)
for _, job in ipairs(plan) do
  local what, id, member, worker, ttl, at_front, left, wait_s, keep_s = unpack(job, 1, 9)
  local key = prefix .. ':job:' .. id
  if what == 'again' then
    redis.call('HSET', key, 'retries_left', string.format('%.0f', left))
    queue_up(id, ttl, at_front)
  elseif what == 'later' then
    redis.call('HSET', key, 'retries_left', string.format('%.0f', left), 'status', 'scheduled', 'worker_name', '')
    redis.call('ZADD', scheduled, string.format('%.0f', math.floor(now_s) + wait_s), id)
  elseif what == 'fail' then
    redis.call('HSET', key, 'status', 'failed', 'ended_at', written(now_ms))
    redis.call('ZADD', failed, keep_s < 0 and '-1' or string.format('%.0f', math.floor(now_s) + keep_s), id)
  end
  redis.call('ZREM', started, member)
  if what == 'fail' then
    local result = prefix .. ':results:' .. id
    redis.pcall('XADD', result, 'MAXLEN', 10, '*', 'type', 2, 'worker_name', worker, 'exc_string', exc_string)
    for _, each in ipairs({key, key .. ':dependents', prefix .. ':job::' .. id .. ':dependencies', result}) do
      if keep_s >= 0 then redis.pcall('EXPIRE', each, math.max(1, keep_s)) end
    end
    pcall(enqueue_dependents, id)
  end
  redis.pcall('ZREM', prefix .. ':executions:' .. id, string.sub(member, #id + 2))
  if (worker or '') ~= '' then redis.pcall('SREM', prefix .. ':worker:' .. worker .. ':executions', member) end
end
for i = #back, 1, -1 do queue_up(back[i][1], back[i][2], true) end -- the oldest is the next one
for _, job in ipairs(back) do dropped[#dropped + 1] = job[1] end
for _, id in ipairs(dropped) do
  redis.call('LREM', intermediate, 1, id)
  redis.call('DEL', first_seen .. id)
end
return {'moved', moved, ready, dead, moved >= limit and 0 or next_ms}
