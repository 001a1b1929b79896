-- Return a page of the jobs of a queue in a place, in the order of the place: in `queue` the next one first.
--
-- `schedule`, `retry` and `dead` hold the jobs of all queues. Their first 600 jobs (the last 600, if `offset` is negative) are searched:
-- `offset` counts only these, `total` is the number found, and `of` is an estimate of the real number if some were not
-- searched. In `work`, `exact` is false if there are more than 300 processes or 3000 running jobs; then `total` is the
-- number of jobs that were read. `head` is the whole job up to 4096 bytes, or up to `body_bytes` if that is more. For a
-- longer job `head` has the first 4096 bytes, and `tail` the last 2048. `score` is the stored score, in `work` the time
-- when the run began. In `work`, `token` is the identity of the process and its thread, and `beat_ms` the age of the
-- process's last heartbeat, -1 if it is unknown.
--
-- derived  <prefix><identity>
--          <prefix><identity>:work
--          <prefix><identity>:workers
-- KEYS     schedule retry queue dead processes
-- ARGV     now_ms?     int   a test's clock; the server's when empty
--          prefix      str   the prefix of all keys: the namespace and a colon, or nothing
--          place       str   schedule, retry, queue, work or dead
--          offset      int   how many jobs to skip; -1: the last page, -1 - n: the one that ends n before the end
--          limit       int   how many at most, 1 to 1000
--          body_bytes  int   return jobs of up to this size whole; -1: all
-- returns  page  (now_ms int, total int, of? int, exact bool)
--                rows (head bytes, size int, tail bytes, score str, token bytes, worker str, beat_ms str)
-- include: keys
local place, offset, limit, body_bytes, arguments = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), 6
-- include: page_guard, clock, prefix, instant, queue_of, processes, works
local name = string.sub(queue, #prefix + 7)
-- include: job_row, running
local rows = {}
if place == 'queue' then
  local total = redis.call('LLEN', queue)
  offset = offset < 0 and math.max(0, total - limit + offset + 1) or offset
  local found = offset < total and redis.call('LRANGE', queue, math.max(-total, -offset - limit), -offset - 1) or {}
  for at = #found, 1, -1 do rows[#rows + 1] = job_row(found[at], '') end
  return {'page', now_ms, total, '', 1, rows}
end
local jobs, of, is_all = {}, '', true
if place == 'work' then
  local runs
  runs, is_all = running()
  for at, run in ipairs(runs) do
    jobs[at] = {run[4], tostring(run[1]), run[3] .. ' ' .. run[2], run[3], tostring(run[5])}
  end
else
  local key = ({schedule = schedule, retry = retry, dead = dead})[place]
  if not key then return redis.error_reply('ERR there is no place ' .. place) end
  local card = redis.call('ZCARD', key)
  local searched, start = math.min(card, 600), offset < 0 and math.max(0, card - 600) or 0
  for from = 0, searched - 1, 100 do -- Read a few at a time, because jobs may be long.
    local members = redis.call('ZRANGE', key, start + from, start + math.min(searched, from + 100) - 1, 'WITHSCORES')
    for i = 1, #members, 2 do
      if queue_of(members[i]) == name then jobs[#jobs + 1] = {members[i], members[i + 1]} end
    end
  end
  if searched < card then of = math.floor(#jobs * card / searched + 0.5) end
end
local first = offset < 0 and math.max(0, #jobs - limit + offset + 1) or offset
for at = first + 1, math.min(#jobs, first + limit) do rows[#rows + 1] = job_row(unpack(jobs[at])) end
return {'page', now_ms, #jobs, of, is_all and 1 or 0, rows}
