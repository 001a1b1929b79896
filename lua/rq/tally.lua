-- Count the jobs of many queues at one instant: `counts.lua` for all of them in one call.
--
-- derived  <prefix>:job:<id>
--          <prefix>:worker:<worker>
-- KEYS     suspended
--          each (scheduled zset, deferred zset, ready_to_enqueue zset, queued list, started zset, intermediate list, finished zset, failed zset, canceled zset, workers set)  the keys of a queue
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          prefix   str  prefix of all keys: rq
-- returns  counted  (now_ms int, paused bool)
--                   rows (scheduled int, deferred int, ready_to_enqueue int, queued int, started int, intermediate int,
--                   finished int, failed int, canceled int, oldest_ms int, due_ms int, overdue int, deadline_ms int,
--                   expired int, workers int)  a row per queue, in the order of the keys
-- include: keys, now_guard, clock_prefix, parse_time, tolerant, tally
local rows = {}
for at = 2, #KEYS, 10 do
  rows[#rows + 1] = tolerant(tally, {unpack(KEYS, at, at + 8)}, KEYS[at + 9])
end
return {'counted', now_ms, redis.call('EXISTS', suspended), rows}
