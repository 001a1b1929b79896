-- Count the jobs of a queue at one instant, place by place.
--
-- `oldest_ms` is the age of the next job, by its `enqueued_at`. `due_ms` and `deadline_ms` are the next such times, -1 for none.
-- `workers` counts workers that have a hash; if there are more than about 200, all registered ones. If another program uses the key of a
-- place, its count is 0; for the key of the workers it is -1.
--
-- derived  <prefix>:job:<id>
--          <prefix>:worker:<worker>
-- KEYS     scheduled deferred ready_to_enqueue queued started intermediate finished failed canceled workers
--          suspended
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          prefix   str  prefix of all keys: rq
-- returns  counted  (now_ms int, scheduled int, deferred int, ready_to_enqueue int, queued int, started int, intermediate int,
--                   finished int, failed int, canceled int, oldest_ms int, due_ms int, overdue int, deadline_ms int, expired int,
--                   workers int, paused bool)
-- include: keys, now_guard, clock_prefix, parse_time, tolerant, tally
local row = tolerant(tally, {scheduled, deferred, ready_to_enqueue, queued, started, intermediate, finished, failed, canceled}, workers)
row[#row + 1] = redis.call('EXISTS', suspended)
return {'counted', now_ms, unpack(row)}
