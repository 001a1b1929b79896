-- Count the jobs of each queue in the sorted sets that all queues share.
--
-- In a set of more than 200 jobs, only a sample is read, and the numbers are estimates. `due_ms` is the next due time
-- in `schedule` and `retry`, -1 for none. A queue without a row has no jobs there.
--
-- KEYS     schedule retry dead
-- ARGV     now_ms?  int  a test's clock; the server's when empty
-- returns  counted  (now_ms int, schedule_of int, retry_of int, dead_of int, schedule_exact bool, retry_exact bool, dead_exact bool)
--                   rows (queue str, schedule int, retry int, dead int, due_ms int, overdue int)
-- include: keys
local only = nil
-- include: clock, spread
local rows, seen = {}, {}
for _, of in ipairs(number) do
  for queue in pairs(of) do
    if not seen[queue] then
      local of_schedule, of_retry, of_dead = shares(queue)
      seen[queue] = true
      rows[#rows + 1] = {queue, of_schedule, of_retry, of_dead, next_due[queue] or -1, overdue[queue] or 0}
    end
  end
end
local _, _, _, all_schedule, all_retry, all_dead = shares('')
return {'counted', now_ms, cards[1], cards[2], cards[3], all_schedule, all_retry, all_dead, rows}
