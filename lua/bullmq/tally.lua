-- Count the jobs of many queues at one instant: `counts.lua` for all of them in one call.
--
-- derived  <prefix>:<queue>:<id>
--          <prefix>:<queue>:<id>:lock
-- KEYS     each (delayed zset, waiting_children zset, prioritized zset, wait list, paused list, active list, completed zset,
--               failed zset, meta hash, id string, metrics_completed hash, metrics_failed hash)  the keys of a queue
-- ARGV     now_ms?  int  a test's clock; the server's when empty
-- returns  counted  (now_ms int)
--                   rows (delayed int, waiting_children int, prioritized int, wait int, paused int, active int, completed int,
--                   failed int, oldest_ms int, due_ms int, overdue int, deadline_ms int, expired int, is_paused bool, concurrency int, limit_max int, limit_ms int,
--                   added int, succeeded int, died int)
--                   a row per queue, in the order of the keys
-- include: clock, tolerant, tally
local rows = {}
for at = 1, #KEYS, 12 do
  rows[#rows + 1] = tolerant(tally, {unpack(KEYS, at, at + 7)}, {unpack(KEYS, at + 8, at + 11)})
end
return {'counted', now_ms, rows}
