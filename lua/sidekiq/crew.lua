-- Count the running jobs and the live processes of each queue.
--
-- `expired` is the number of running jobs of processes without a heartbeat for 20 s. A queue without a row has no
-- running jobs. At most 300 processes and 3000 running jobs are counted: if there are more, `work_exact` is false.
--
-- derived  <prefix><identity>
--          <prefix><identity>:work
--          <prefix><identity>:workers
-- KEYS     processes
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          prefix   str  the prefix of all keys: the namespace and a colon, or nothing
-- returns  counted  (now_ms int, work_exact bool)  rows (queue str, work int, expired int, workers int)
-- include: keys
local only = nil
-- luacheck: ignore 231 (`has_others_at_work` of the block is for `counts`)
-- include: clock, prefix, instant, queue_of, crew
local rows = {}
for _, of in ipairs({work, workers}) do
  for queue in pairs(of) do
    if type(queue) == 'string' and (of == work or not work[queue]) then
      rows[#rows + 1] = {queue, work[queue] or 0, expired[queue] or 0, workers[queue] or 0}
    end
  end
end
return {'counted', now_ms, work_exact, rows}
