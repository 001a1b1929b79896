-- Return a page of the jobs of a place, in its order.
--
-- derived  jobbox:job:<id>
-- KEYS     delayed waiting running failed
-- ARGV     now_ms?     int  a test's clock; the server's when empty
--          place       str  one of the keys
--          offset      int  number of jobs to skip; -1: the last page, -1 - n: the one that ends n before the end
--          limit       int  jobs at most, 1 to 1000
--          body_bytes  int  return bodies up to this size; -1: any size
-- returns  page  (now_ms int, total int)
--                rows (id bytes, score str, has_record bool, size int, body bytes, name bytes, created str,
--                attempts str, error bytes, worker bytes)
-- include: keys, clock, args
local key = ({delayed = delayed, waiting = waiting, running = running, failed = failed})[place]
if not key or not offset or not body_bytes or not limit or limit < 1 or limit > 1000 then
  return redis.error_reply('ERR the place is delayed, waiting, running or failed, and limit is 1 to 1000')
end
local most = body_bytes < 0 and math.huge or math.max(4096, body_bytes)
-- include: job_row
local is_list = key == waiting
local total, rows = redis.call(is_list and 'LLEN' or 'ZCARD', key), {}
if offset < 0 then offset = math.max(0, total - limit + offset + 1) end
if is_list then
  for _, id in ipairs(redis.call('LRANGE', key, offset, offset + limit - 1)) do rows[#rows + 1] = job_row(id, '') end
else
  local found = redis.call('ZRANGE', key, offset, offset + limit - 1, 'WITHSCORES')
  for at = 1, #found, 2 do rows[#rows + 1] = job_row(found[at], found[at + 1]) end
end
return {'page', now_ms, total, rows}
