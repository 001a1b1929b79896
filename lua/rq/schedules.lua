-- What RQ's cron schedulers enqueue again and again, of all queues: each scheduler with its jobs as it wrote them, JSON.
--
-- `beat_s` is a scheduler's last sign of life. RQ 2 writes no `cron_jobs`. `enqueued` are names of cron jobs with when each was
-- enqueued last (s), as RQ 3 keeps them. At most 100 schedulers and 1000 names; of the JSON of one at most 256 kB.
--
-- derived  <prefix>:cron_scheduler:<name>
-- KEYS     cron_schedulers  zset  name by last sign of life (s)
--          cron_jobs        zset  name of a job by when it was enqueued last (s); RQ 3
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          prefix   str  before all keys: rq
-- returns  listed  (now_ms int)  rows (kind str, name bytes, at_s str, left_ms int, hostname str, pid str, jobs bytes)
--                  a row per `scheduler`, and one per `enqueued` name
local cron_schedulers, cron_jobs = KEYS[1], KEYS[2]
if #ARGV < 2 or #ARGV[1] > 15 or string.find(ARGV[1], '%D') then
  return redis.error_reply('ERR now_ms is a whole number; nothing was changed')
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local prefix, rows = ARGV[2], {}
local found = redis.call('ZRANGE', cron_schedulers, -100, -1, 'WITHSCORES')
for i = 1, #found, 2 do
  local key = prefix .. ':cron_scheduler:' .. found[i]
  local told = redis.pcall('HMGET', key, 'hostname', 'pid')
  local length = redis.pcall('HSTRLEN', key, 'cron_jobs')
  local is_short = type(length) == 'number' and length <= 262144
  local jobs = is_short and redis.call('HGET', key, 'cron_jobs') or ''
  rows[#rows + 1] = {'scheduler', found[i], found[i + 1], redis.call('PTTL', key), told[1] or '', told[2] or '', jobs}
end
local names = redis.call('ZRANGE', cron_jobs, -1000, -1, 'WITHSCORES')
for i = 1, #names, 2 do rows[#rows + 1] = {'enqueued', names[i], names[i + 1], 0, '', '', ''} end
return {'listed', now_ms, rows}
