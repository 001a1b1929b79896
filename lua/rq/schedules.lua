-- List the cron schedulers of RQ over all queues, each with its jobs as JSON.
--
-- `at_s` of a scheduler is its last heartbeat. RQ 2 does not write `cron_jobs`. The rows `enqueued` are names of cron jobs with the time
-- of their last enqueue (s), which RQ 3 stores. The reply has at most 100 schedulers, 1000 names, and 256 kB of JSON per scheduler.
--
-- derived  <prefix>:cron_scheduler:<name>
-- KEYS     cron_schedulers  zset  name by last heartbeat (s)
--          cron_jobs        zset  name of a job by its last enqueue (s); RQ 3
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          prefix   str  prefix of all keys: rq
-- returns  listed  (now_ms int)  rows (kind str, name bytes, at_s str, left_ms int, hostname str, pid str, jobs bytes)
--                  a row per `scheduler`, and one per `enqueued` name
-- include: keys, now_guard, clock_prefix
local rows = {}
local found = redis.call('ZRANGE', cron_schedulers, -100, -1, 'WITHSCORES')
for i = 1, #found, 2 do
  local key = prefix .. ':cron_scheduler:' .. found[i]
  local values = redis.pcall('HMGET', key, 'hostname', 'pid')
  local length = redis.pcall('HSTRLEN', key, 'cron_jobs')
  local is_short = type(length) == 'number' and length <= 262144
  local jobs = is_short and redis.call('HGET', key, 'cron_jobs') or ''
  rows[#rows + 1] = {'scheduler', found[i], found[i + 1], redis.call('PTTL', key), values[1] or '', values[2] or '', jobs}
end
local names = redis.call('ZRANGE', cron_jobs, -1000, -1, 'WITHSCORES')
for i = 1, #names, 2 do rows[#rows + 1] = {'enqueued', names[i], names[i + 1], 0, '', '', ''} end
return {'listed', now_ms, rows}
