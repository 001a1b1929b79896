-- Dispatch due jobs, as a scheduler of RQ does. If a scheduler holds the lock, the jobs are left to it.
--
-- The scheduler reads and writes in two steps, so a job that is moved in between would run twice. `next_ms` is the time until the next
-- job is due or the lock expires, -1 if there is neither.
--
-- moves    scheduled -> queued
-- writes   queues
-- derived  <prefix>:job:<id>
--          <prefix>:job:<id>:dependents
--          <prefix>:job::<id>:dependencies
-- KEYS     scheduled queued queues lock
-- ARGV     now_ms?    int  a test's clock; the server's when empty
--          prefix     str  prefix of all keys: rq
--          limit      int  jobs per call, 1 to 1000
-- returns  moved      (moved int, scheduled int, ready int, next_ms int)  dispatched
--          empty      (next_ms int)  nothing is due
--          scheduler  (next_ms int)  a scheduler of RQ holds the lock, and dispatches the jobs
-- include: keys, args(limit)
if #ARGV < 3 or string.find(ARGV[1] .. ARGV[3], '%D') or #ARGV[1] > 13 or not limit or limit < 1 or limit > 1000 or ARGV[2] == '' then
  return redis.error_reply('ERR limit is 1 to 1000, now_ms a whole number, the prefix not empty; nothing was changed')
end
-- include: clock_prefix, key_types(queues)
local ready, waits = redis.call('LLEN', queued), redis.call('ZCARD', scheduled)
if redis.call('GET', lock) then return {'scheduler', math.max(1000, redis.call('PTTL', lock))} end
-- include: format_time, read_fields, queue_up
local function next_ms()
  local due = tonumber(redis.call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')[2])
  return due and math.max(0, math.ceil(due * 1000 - now_ms)) or -1
end
local due = redis.call('ZRANGEBYSCORE', scheduled, '-inf', string.format('%.3f', now_ms / 1000), 'LIMIT', 0, limit)
local jobs, gone, limited = {}, {}, 0
for _, id in ipairs(due) do
  local values = read_fields(id, 'rate_limit_key', 'ttl', 'enqueue_at_front', 'enqueue_at_front_on_retry', 'ended_at')
  if not values then
    gone[#gone + 1] = id -- its hash has expired; RQ also drops the id here
  elseif (values[1] or '') ~= '' then
    limited = limited + 1 -- only RQ can assign the slots of a rate limit
  else
    jobs[#jobs + 1] = {id, values[2], values[3] == '1' or (values[4] == '1' and (values[5] or '') ~= '')}
  end
end
if #jobs + #gone == 0 then return {'empty', limited > 0 and -1 or next_ms()} end

redis.call('ZREM', scheduled, '') -- frees nothing, but lets the script finish over maxmemory
redis.call('SADD', queues, queued)
for _, job in ipairs(jobs) do
  queue_up(job[1], job[2], job[3])
  redis.call('ZREM', scheduled, job[1])
end
for _, id in ipairs(gone) do redis.call('ZREM', scheduled, id) end
return {'moved', #jobs + #gone, waits - #jobs - #gone, ready, next_ms()}
