-- Return a page of the jobs of a place, in the order in which they run.
--
-- `size` is the length of `data`: -1 if the hash has no data, -2 if there is no hash, -3 if the key has another type. `data` is returned
-- up to 4096 bytes, or up to `body_bytes` if that is more; `opts`, `error` (the failedReason) and `trace` (the JSON list of stack
-- traces) up to 64 kB. `lock` is the token of the worker that runs an active job. `lock_ms` is the time until the lock expires, -2 for
-- none. The other columns are fields of the hash, unchanged.
--
-- derived  <prefix>:<queue>:<id>
--          <prefix>:<queue>:<id>:lock
-- KEYS     delayed waiting_children prioritized wait paused active completed failed
-- ARGV     now_ms?     int  a test's clock; the server's when empty
--          p           str  prefix of all keys of the queue: bull:mail:
--          place       str  one of the keys
--          offset      int  number of jobs to skip; -1: the last page, -1 - n: the one that ends n before the end
--          limit       int  jobs per call, 1 to 1000
--          body_bytes  int  return data up to this size; -1: any size
-- returns  page  (now_ms int, total int)
--                rows (id bytes, member bytes, score str, size int, data bytes, name str, opts bytes, error bytes, trace bytes, lock bytes,
--                lock_ms int, timestamp str, delay str, priority str, atm str, ats str, stc str, processed_on str, finished_on str,
--                pb str, defa str, parent_key bytes, rjk bytes, deid bytes)
-- include: keys, arguments, queue_keys, opening, page_range, job_row
local rows = {}
if sets[place] then
  local found = redis.call('ZRANGE', sets[place], offset, offset + limit - 1, 'WITHSCORES')
  for i = 1, #found, 2 do rows[#rows + 1] = job_row(place, found[i], found[i + 1]) end
elseif offset < total then -- jobs enter on the left and leave on the right
  local found = redis.call('LRANGE', lists[place], -offset - limit, -offset - 1)
  for i = #found, 1, -1 do rows[#rows + 1] = job_row(place, found[i], '') end
end
return {'page', now_ms, total, rows}
