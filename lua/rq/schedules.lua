-- List the cron schedulers of RQ over all queues, each with its jobs as JSON, and the jobs of rq-scheduler.
--
-- `at_s` of a scheduler is its last heartbeat. RQ 2 does not write `cron_jobs`. The rows `enqueued` are names of cron jobs with the time
-- of their last enqueue (s), which RQ 3 stores. If a scheduler is missing, `origin` of the 100 latest names is the queue of the job that
-- was enqueued last. The rows `scheduled` are jobs of rq-scheduler 0.14 with the time of their next enqueue
-- (s), the next ones first; `meta` is the encoded `meta` of the job, with its interval or cron pattern. `left_ms` of such a row is -2 if
-- the hash of the job is missing. The reply has at most 100 schedulers, 1000 names, 500 jobs of rq-scheduler, 256 kB of JSON per
-- scheduler, and 4096 bytes of each field of a job.
--
-- derived  <prefix>:cron_scheduler:<name>
--          <prefix>:cron_job:<name>:jobs
--          <prefix>:job:<id>
-- KEYS     cron_schedulers  zset  name by last heartbeat (s)
--          cron_jobs        zset  name of a job by its last enqueue (s); RQ 3
--          scheduled_jobs   zset  id by its next enqueue (s); rq-scheduler
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          prefix   str  prefix of all keys: rq
-- returns  listed  (now_ms int)  rows (kind str, name bytes, at_s str, left_ms int, hostname str, pid str, jobs bytes, origin
--                  bytes, description bytes, meta bytes)  a row per `scheduler`, one per `enqueued` name, and one per `scheduled` job
-- include: keys, now_guard, clock_prefix
local rows, is_missing = {}, false
local found = redis.call('ZRANGE', cron_schedulers, -100, -1, 'WITHSCORES')
for i = 1, #found, 2 do
  local key = prefix .. ':cron_scheduler:' .. found[i]
  local values = redis.pcall('HMGET', key, 'hostname', 'pid')
  local length = redis.pcall('HSTRLEN', key, 'cron_jobs')
  local is_short = type(length) == 'number' and length <= 262144
  local jobs = is_short and redis.call('HGET', key, 'cron_jobs') or ''
  rows[#rows + 1] = {'scheduler', found[i], found[i + 1], redis.call('PTTL', key), values[1] or '', values[2] or '', jobs, '', '', ''}
  is_missing = is_missing or rows[#rows][4] == -2
end
local names = redis.call('ZRANGE', cron_jobs, -1000, -1, 'WITHSCORES')
for i = 1, #names, 2 do
  local queue = false
  if is_missing and i > #names - 200 then
    local last = redis.pcall('ZRANGE', prefix .. ':cron_job:' .. names[i] .. ':jobs', -1, -1)
    queue = not last.err and last[1] and redis.pcall('HGET', prefix .. ':job:' .. last[1], 'origin')
  end
  rows[#rows + 1] = {'enqueued', names[i], names[i + 1], 0, '', '', '', type(queue) == 'string' and queue or '', '', ''}
end
local scheduled = redis.call('ZRANGE', scheduled_jobs, 0, 499, 'WITHSCORES')
for i = 1, #scheduled, 2 do
  local key = prefix .. ':job:' .. scheduled[i]
  local row = {'scheduled', scheduled[i], scheduled[i + 1], redis.call('PTTL', key), '', '', ''}
  for _, field in ipairs({'origin', 'description', 'meta'}) do
    local length = redis.pcall('HSTRLEN', key, field)
    local is_short = type(length) == 'number' and length > 0 and length <= 4096
    row[#row + 1] = is_short and redis.call('HGET', key, field) or ''
  end
  rows[#rows + 1] = row
end
return {'listed', now_ms, rows}
