-- Return a page of the jobs of a place in the order of their due times. `record_walk` lists the ended jobs.
--
-- `size` is the length of the record, -1 if its key has another type, 0 without a record. A record of more than 4096 bytes, and
-- of more than `body_bytes`, is cut after 4096 bytes. `left_ms` is the time until the record expires, `lease_ms` that until the in-progress key expires;
-- negative: never, or there is none. `asked_ms` is the time of the request to abort the job, or empty. `result` and `tail` are empty.
--
-- derived  arq:job:<id>
--          arq:in-progress:<id>
--          arq:retry:<id>
-- KEYS     ids abort
-- ARGV     now_ms?     int  a test's clock; the server's when empty
--          place       str  deferred, queued or in_progress
--          offset      int  jobs to skip; -1: the last page, -1 - n: the one that ends n before the end
--          limit       int  jobs at most, 1 to 1000
--          body_bytes  int  return records up to this size; -1: any size
-- returns  page  (now_ms int, total int, exact bool)
--                rows (id bytes, score str, size int, record bytes, left_ms int, tries str, lease_ms int, asked_ms str, result bytes,
--                tail bytes)
-- include: keys, clock, args(place offset limit body_bytes)
local arguments = 5
-- include: page_guard, key_types(ids), running
if place ~= 'deferred' and place ~= 'queued' and place ~= 'in_progress' then
  return redis.error_reply('ERR the place is deferred, queued or in_progress')
end
local most = body_bytes < 0 and math.huge or math.max(4096, body_bytes)
local totals = {deferred = redis.call('ZCARD', ids) - due_count, queued = due_count - #running, in_progress = #running}
local total, rows = totals[place], {}
offset = offset < 0 and math.max(0, total - limit + offset + 1) or offset + 0 -- `+ 0` turns -0 into 0
-- include: job_row
if place == 'in_progress' then
  for at = offset + 1, math.min(#running, offset + limit) do rows[#rows + 1] = job_row(running[at][1], running[at][2]) end
else
  local first, is_running = offset, {}
  if place == 'deferred' then first = offset + due_count end
  for _, job in ipairs(running) do -- skip the running jobs before the page
    is_running[job[1]] = true
    if place == 'queued' and job[3] <= first then first = first + 1 end
  end
  local found = redis.call('ZRANGE', ids, first, first + limit + #running - 1, 'WITHSCORES')
  for at = 1, #found, 2 do
    if #rows < limit and offset + #rows < total and not is_running[found[at]] then rows[#rows + 1] = job_row(found[at], found[at + 1]) end
  end
end
return {'page', now_ms, total, (place == 'deferred' or due_count <= 500) and 1 or 0, rows}
