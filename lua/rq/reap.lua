-- Reap jobs of dead workers, by the rules of RQ's own clean-up, without callbacks and webhooks.
--
-- A started job is late after its deadline. It stays if its execution sends heartbeats, or if its worker does, was born before the job
-- began, and still lists the job. A job with retries left is retried, at once or after its interval. Otherwise it fails, and dependent
-- jobs that allow failures are enqueued. An entry of a job that has ended or is missing is removed.
--
-- When a job is first found in `intermediate`, the script notes the time, as RQ does. A minute later the job goes back to the head of the
-- queue. RQ would move it to failed, although no worker ran it. If the job is missing or elsewhere by then, its id is removed.
--
-- Jobs with a rate limit are left to RQ. `next_ms` is the time until the next job may be late, -1 if there is none.
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
-- KEYS     started intermediate queued scheduled failed queues
-- ARGV     now_ms?       int    a test's clock; the server's when empty
--          prefix        str    prefix of all keys: rq
--          limit         int    jobs per call, 1 to 1000
--          exc_string?   bytes  error of a failed job, for its result: base64 of zlib of the text
-- returns  moved  (moved int, ready int, dead int, next_ms int)  reaped
--          empty  (next_ms int)  no job of a dead worker is late
-- include: keys, args(limit exc_string)
if #ARGV < 4 or string.find(ARGV[1] .. ARGV[3], '%D') or #ARGV[1] > 13 or not limit or limit < 1 or limit > 1000 or ARGV[2] == '' then
  return redis.error_reply('ERR limit is 1 to 1000, now_ms a whole number, the prefix not empty; nothing was changed')
end
-- include: clock_prefix, key_types(started scheduled failed queued queues), format_time, read_fields, queue_up
local between = redis.call('LRANGE', intermediate, 0, 999)
local now_s, next_ms = now_ms / 1000, nil
local function check_again_in(ms)
  ms = math.max(1, math.ceil(ms))
  next_ms = math.min(next_ms or ms, ms)
end
local function is_held(id, member, worker, began)
  if redis.call('EXISTS', prefix .. ':execution:' .. member) == 1 then return true end
  local key = prefix .. ':worker:' .. worker
  local birth, current = unpack(redis.call('HMGET', key, 'birth', 'current_job'))
  if not birth or birth > began then return false end
  return current == id or redis.call('SISMEMBER', key .. ':executions', member) == 1
end
local function interval_s(left, intervals) -- RQ counts from the end of the list; the first interval is used for all earlier retries
  local _, list = pcall(cjson.decode, intervals or '')
  if type(list) ~= 'table' then return 0 end
  return tonumber(list[math.max(#list - left, 0) + 1]) or 0
end
local plan = {} -- the actions, decided before the first write
local ready, dead = 0, 0
for _, member in ipairs(redis.call('ZRANGEBYSCORE', started, '-inf', '(' .. string.format('%.3f', now_s), 'LIMIT', 0, limit)) do
  local id = string.match(member, '^([^:]*)')
  local values = read_fields(id, 'status', 'rate_limit_key', 'ttl', 'worker_name', 'started_at', 'retries_left', 'retry_intervals',
    'enqueue_at_front_on_retry', 'failure_ttl')
  local left = values and tonumber(values[6] or '') or 0
  if not values or values[1] ~= 'started' then
    plan[#plan + 1] = {'drop', id, member, values and values[4]}
  elseif (values[2] or '') == '' and not is_held(id, member, values[4] or '', values[5] or '') then
    local wait_s = left > 0 and interval_s(left, values[7]) or 0
    local action = left <= 0 and 'fail' or wait_s > 0 and 'later' or 'again'
    plan[#plan + 1] = {action, id, member, values[4] or '', values[3], values[8] == '1', left - 1, wait_s, tonumber(values[9] or '') or 31536000}
    if action == 'again' then ready = ready + 1 elseif action == 'fail' then dead = dead + 1 end
  end
end
local first_seen = intermediate .. ':first_seen:'
local accepted, dropped, notes = {}, {}, {}
for _, id in ipairs(between) do
  if #plan + #accepted + #dropped >= limit then break end
  local values = read_fields(id, 'status', 'rate_limit_key', 'ttl')
  local since = values and tonumber(redis.pcall('GET', first_seen .. id) or nil)
  if not values or values[1] ~= 'queued' then
    dropped[#dropped + 1] = id
  elseif (values[2] or '') ~= '' then
    check_again_in(60000)
  elseif not since then
    notes[#notes + 1] = id
    check_again_in(60000)
  elseif now_s - since <= 60 then
    check_again_in((since + 60 - now_s) * 1000)
  else
    accepted[#accepted + 1], ready = {id, values[3]}, ready + 1
  end
end
local soonest = redis.call('ZRANGEBYSCORE', started, string.format('%.3f', now_s), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
if tonumber(soonest) and tonumber(soonest) < math.huge then check_again_in(tonumber(soonest) * 1000 - now_ms) end
local moved = #plan + #accepted + #dropped
if moved + #notes > 0 then redis.call('ZREM', failed, '') end -- frees nothing, but lets the script finish over maxmemory
for _, id in ipairs(notes) do redis.call('SET', first_seen .. id, string.format('%.3f', now_s), 'EX', 86400, 'NX') end
if moved == 0 then return {'empty', next_ms or -1} end

local function enqueue_dependents(id) -- jobs that wait for no other job, and allow this one to fail
  local key = prefix .. ':job:' .. id .. ':dependents'
  for _, other in ipairs(redis.call('SMEMBERS', key)) do
    local values = read_fields(other, 'status', 'allow_dependency_failures', 'origin', 'enqueue_at_front', 'rate_limit_key')
    local is_met = values and values[1] == 'deferred' and values[2] == '1' and values[3] and (values[5] or '') == ''
    for _, parent in ipairs(is_met and redis.call('SMEMBERS', prefix .. ':job::' .. other .. ':dependencies') or {}) do
      local status = redis.call('HGET', prefix .. ':job:' .. parent, 'status')
      is_met = is_met and (not status or status == 'finished' or status == 'failed')
    end
    if is_met then
      redis.call('HSET', prefix .. ':job:' .. other, 'status', 'queued', 'enqueued_at', format_time(now_ms))
      redis.call(values[4] == '1' and 'LPUSH' or 'RPUSH', prefix .. ':queue:' .. values[3], other)
      redis.call('ZREM', prefix .. ':deferred:' .. values[3], other)
      redis.call('SREM', key, other)
    end
  end
end
redis.call('SADD', queues, queued)
for _, job in ipairs(plan) do
  local action, id, member, worker, ttl, at_front, left, wait_s, keep_s = unpack(job, 1, 9)
  local key = prefix .. ':job:' .. id
  if action == 'again' then
    redis.call('HSET', key, 'retries_left', string.format('%.0f', left))
    queue_up(id, ttl, at_front)
  elseif action == 'later' then
    redis.call('HSET', key, 'retries_left', string.format('%.0f', left), 'status', 'scheduled', 'worker_name', '')
    redis.call('ZADD', scheduled, string.format('%.0f', math.floor(now_s) + wait_s), id)
  elseif action == 'fail' then
    redis.call('HSET', key, 'status', 'failed', 'ended_at', format_time(now_ms))
    redis.call('ZADD', failed, keep_s < 0 and '-1' or string.format('%.0f', math.floor(now_s) + keep_s), id)
  end
  redis.call('ZREM', started, member)
  if action == 'fail' then
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
for i = #accepted, 1, -1 do queue_up(accepted[i][1], accepted[i][2], true) end -- the oldest job runs next
for _, job in ipairs(accepted) do dropped[#dropped + 1] = job[1] end
for _, id in ipairs(dropped) do
  redis.call('LREM', intermediate, 1, id)
  redis.call('DEL', first_seen .. id)
end
return {'moved', moved, ready, dead, moved >= limit and 0 or next_ms or -1}
