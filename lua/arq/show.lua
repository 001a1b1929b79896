-- Return one job: from the queue with its record, or its result. A job that ended is in the place `complete`; its record shows
-- whether it failed.
--
-- The columns are those of `page`. For a job that ended, `result` is the stored result, `size` its length, and `left_ms` the time
-- until it expires. A result that is longer than `body_bytes` is returned as its first 8192 bytes, and `tail` has the last 512.
--
-- derived  arq:job:<id>
--          arq:in-progress:<id>
--          arq:retry:<id>
--          arq:result:<id>  (complete failed)
-- KEYS     ids abort
-- ARGV     now_ms?     int    a test's clock; the server's when empty
--          id          bytes  the job
--          body_bytes  int    a longer record is cut; -1 returns any record
-- returns  found  (now_ms int, place str, id bytes, score str, size int, record bytes, left_ms int, tries str, lease_ms int,
--                 asked_ms str, result bytes, tail bytes)
--          gone   no such job
-- include: keys, integers(body_bytes), clock, args(id body_bytes)
if not body_bytes then return redis.error_reply('ERR body_bytes is a whole number') end
local most = body_bytes < 0 and math.huge or body_bytes
-- include: job_row
local score = redis.call('ZSCORE', ids, id)
if score then
  local is_running = redis.call('EXISTS', 'arq:in-progress:' .. id) == 1
  local place = is_running and 'in_progress' or tonumber(score) > now_ms and 'deferred' or 'queued'
  return {'found', now_ms, place, unpack(job_row(id, score))}
end
local key = 'arq:result:' .. id
local size = redis.pcall('STRLEN', key)
if type(size) ~= 'number' or size == 0 then return {'gone'} end
local is_long = size > most
local result = is_long and redis.call('GETRANGE', key, 0, 8191) or redis.call('GET', key)
local tail = is_long and redis.call('GETRANGE', key, -512, -1) or ''
return {'found', now_ms, 'complete', id, '', size, '', redis.call('PTTL', key), '', -2, '', result, tail}
