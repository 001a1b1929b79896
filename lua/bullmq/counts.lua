-- Count the jobs of a queue at one instant, place by place.
--
-- `oldest_ms` is the time for which the next job has waited. `due_ms` and `deadline_ms` are the next such times, -1 for none. `expired`
-- counts jobs without a lock among the 20 oldest in `active`: no worker runs them. `concurrency`, and `limit_max` runs per `limit_ms`,
-- are limits of the whole queue, 0 for none. `added` counts all jobs ever added. `succeeded` and `died` count the jobs that ended so,
-- -1 if no worker keeps metrics. If another program uses the key of a place, its count is 0, `added` is -1, and the limits are 0.
--
-- derived  <prefix>:<queue>:<id>
--          <prefix>:<queue>:<id>:lock
-- KEYS     delayed waiting_children prioritized wait paused active completed failed meta id metrics_completed
--          metrics_failed
-- ARGV     now_ms?  int  a test's clock; the server's when empty
-- returns  counted  (now_ms int, delayed int, waiting_children int, prioritized int, wait int, paused int, active int,
--                   completed int, failed int, oldest_ms int, due_ms int, overdue int, deadline_ms int, expired int, is_paused bool, concurrency int, limit_max int, limit_ms int,
--                   added int, succeeded int, died int)
-- include: keys, clock, tolerant, tally
local places, beside = {delayed, waiting_children, prioritized, wait, paused, active, completed, failed}, {meta, id, metrics_completed, metrics_failed}
return {'counted', now_ms, unpack(tolerant(tally, places, beside))}
