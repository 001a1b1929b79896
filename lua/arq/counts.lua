-- Count the jobs of a queue by their due times, and those of the first 500 due ones that run.
--
-- A job stays in the sorted set while it runs; its in-progress key shows that. With more than 500 due jobs, `queued` and `in_progress`
-- are a sample. `oldest_ms` is the age of the oldest due job that no worker runs, `due_ms` the next due time; -1 means none.
--
-- derived  arq:in-progress:<id>
-- KEYS     ids
-- ARGV     now_ms?  int  a test's clock; the server's when empty
-- returns  counted  (now_ms int, deferred int, queued int, in_progress int, queued_exact bool, in_progress_exact bool, oldest_ms int,
--                    due_ms int)
-- include: keys, clock, running
local oldest_ms, exact = -1, due_count <= 500 and 1 or 0
if due_count > #running then
  local rank = 0
  while running[rank + 1] and running[rank + 1][3] == rank do rank = rank + 1 end
  local score = redis.call('ZRANGE', ids, rank, rank, 'WITHSCORES')[2]
  oldest_ms = math.max(0, now_ms - math.floor(math.max(0, tonumber(score))))
end
local next_due = redis.call('ZRANGEBYSCORE', ids, '(' .. string.format('%.0f', now_ms), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
return {
  'counted', now_ms, redis.call('ZCARD', ids) - due_count, due_count - #running, #running, exact, exact, oldest_ms,
  next_due and math.floor(math.min(9e15, tonumber(next_due))) or -1,
}
