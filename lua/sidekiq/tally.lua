-- Count the jobs in the lists of many queues, and compute how long the next job of each has waited.
--
-- `spread.lua` counts the jobs in the other places.
--
-- KEYS     each (queue list)  the list of a queue, whose last job is next
-- ARGV     now_ms?  int  a test's clock; the server's when empty
-- returns  counted  (now_ms int)  rows (queue int, oldest_ms int)  a row per queue, in the order of the keys
local rows = {}
-- include: clock, oldest
for at, queue in ipairs(KEYS) do
  local length = redis.call('LLEN', queue)
  rows[at] = {length, oldest_ms(queue, length)}
end
return {'counted', now_ms, rows}
