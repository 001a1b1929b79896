-- Count the jobs of a queue.
--
-- All queues share `schedule`, `retry` and `dead`. In a set of more than 200 jobs, only a sample is read, and the
-- numbers are estimates: then `schedule_exact` is false, and `schedule_of` is the number of jobs of all queues. At most
-- 300 processes and 3000 running jobs are counted: if there are more, `work_exact` is false. `expired` is the number of
-- running jobs of processes without a heartbeat for 20 s. `oldest_ms` is the age of the next job, and `due_ms` the next
-- due time in `schedule` and `retry`, -1 for none. `processed` and `failed` count all queues, so they are empty if
-- there are others.
--
-- derived  <prefix><identity>
--          <prefix><identity>:work
--          <prefix><identity>:workers
-- KEYS     schedule retry queue dead processes queues stat_processed
--          stat_failed  string  how many of them failed
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          prefix   str  the prefix of all keys: the namespace and a colon, or nothing
-- returns  counted  (now_ms int, schedule int, retry int, dead int, schedule_exact bool, retry_exact bool, dead_exact bool,
--                   work_exact bool, schedule_of int, retry_of int, dead_of int, queue int, work int, expired int, workers int, due_ms int,
--                   overdue int, oldest_ms int, processed str, failed str)
-- include: keys, clock, prefix
local only = string.sub(queue, #prefix + 7)
-- include: instant, queue_of, processes, held_keys, spread, crew, oldest
local length = redis.call('LLEN', queue)
local others = redis.pcall('SCARD', queues)
others = type(others) == 'number' and others - redis.call('SISMEMBER', queues, only) or 1
local is_alone = others == 0 and not has_others and not has_others_at_work
local function counter(key)
  local value = is_alone and redis.pcall('GET', key) or ''
  return type(value) == 'string' and value or ''
end
local of_schedule, of_retry, of_dead, all_schedule, all_retry, all_dead = shares(only)
return {
  'counted', now_ms, of_schedule, of_retry, of_dead, all_schedule, all_retry, all_dead, work_exact, cards[1], cards[2], cards[3],
  length, work[only] or 0, expired[only] or 0, workers[only] or 0, next_due[only] or -1, overdue[only] or 0,
  oldest_ms(queue, length), counter(stat_processed), counter(stat_failed),
}
