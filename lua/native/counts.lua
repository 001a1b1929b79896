-- Count the jobs and workers of a queue.
--
-- `oldest_ms` is the age of the first ready job, `due_ms` the next due time, `deadline_ms` the next deadline of a
-- lease, and `paused_ms` the time of the pause; -1 for none. `overdue` and `expired` are the numbers of late jobs and
-- leases. `live` is the number of workers that are not late; if there are more than 500 workers, all count as live.
--
-- KEYS     scheduled ready reserved done dead jobs attempts meta workers
-- ARGV     now_ms?   int     a test's clock; the server's when empty
-- returns  counts  (now_ms int, scheduled int, ready int, reserved int, done int, dead int, paused_ms int, oldest_ms int,
--                   due_ms int, deadline_ms int, overdue int, expired int, workers int, live int, version str,
--                   enqueued int, reserved_ever int, acked int, rejected int, dead_ever int, expired_ever int, pulled int,
--                   dispatched int, unnoted int, dead_max int)
-- include: keys, server_time
if #ARGV < 1 or #ARGV[1] > 13 or string.find(ARGV[1], '%D') then return redis.error_reply('ERR now_ms is a whole number') end
local m = redis.call('HMGET', meta, 'version', 'paused', 'enqueued', 'reserved', 'acked', 'rejected', 'dead', 'expired',
  'pulled', 'dispatched', 'unnoted', 'dead_max')
local function count(i, default) return tonumber(m[i]) or default or 0 end
-- include: tallies
local first, registered = redis.call('ZRANGE', ready, '0', '0')[1], redis.call('HLEN', workers)
local waiting, due, overdue = times(scheduled)
local leased, deadline, expired = times(reserved)
return {
  'counts', now_ms, waiting, first and redis.call('ZCARD', ready) or 0, leased, redis.call('ZCARD', done),
  redis.call('ZCARD', dead), count(2, -1), first and now_ms - waiting_since(jobs, attempts, first) or -1, due, deadline, overdue,
  expired, registered, registered > 0 and alive(workers, registered) or 0,
  m[1] or '', count(3), count(4), count(5), count(6), count(7), count(8), count(9), count(10), count(11), count(12, 100000),
}
