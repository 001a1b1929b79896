-- Return a page of the jobs of a place, in the order in which they run.
--
-- `size` is the length of `data`: -1 if the hash has no data, -2 if there is no hash, -3 if the key has another type. `data` is returned
-- up to 4096 bytes, or up to `body_bytes` if that is more. `left_ms` is the time until the hash expires, -1 for never. `beat` (the last
-- heartbeat) and `runner` are those of an execution. `seen` is the time at which RQ's maintenance first found the job in `intermediate`.
-- `error` is the encoded error of the last run. The other columns are fields of the hash, unchanged.
--
-- derived  <prefix>:job:<id>
--          <prefix>:results:<id>
--          <prefix>:execution:<member>
--          <prefix>:queue:<origin>:intermediate:first_seen:<id>
-- KEYS     scheduled deferred ready_to_enqueue queued started intermediate finished failed canceled
-- ARGV     now_ms?     int  a test's clock; the server's when empty
--          prefix      str  prefix of all keys: rq
--          place       str  one of the keys
--          offset      int  number of jobs to skip; -1: the last page, -1 - n: the one that ends n before the end
--          limit       int  jobs per call, 1 to 1000
--          body_bytes  int  return data up to this size; -1: any size
-- returns  page  (now_ms int, total int)
--                rows (id bytes, member bytes, score str, size int, data bytes, description bytes, left_ms int,
--                beat str, runner str, seen str, error bytes, status str, origin str, created_at str, enqueued_at str,
--                started_at str, ended_at str, worker_name str, timeout str, retries_left str, rate_limit_key str, ttl str)
-- include: keys, arguments, clock_prefix
local sets = {scheduled = scheduled, deferred = deferred, ready_to_enqueue = ready_to_enqueue, started = started,
  finished = finished, failed = failed, canceled = canceled}
local lists = {queued = queued, intermediate = intermediate}
-- include: page_range, job_row
local last, rows = offset + limit - 1, {}
if sets[place] then
  local found = redis.call('ZRANGE', sets[place], offset, last, 'WITHSCORES')
  for i = 1, #found, 2 do rows[#rows + 1] = job_row(place, found[i], found[i + 1]) end
else
  for _, member in ipairs(redis.call('LRANGE', lists[place], offset, last)) do rows[#rows + 1] = job_row(place, member, '') end
end
return {'page', now_ms, total, rows}
