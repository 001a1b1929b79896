-- Return one job of a queue.
--
-- derived  jobbox:job:<id>
-- KEYS     delayed waiting running failed
-- ARGV     now_ms?     int    a test's clock; the server's when empty
--          id          bytes  the job
--          body_bytes  int    return a body up to this size; -1: any size
-- returns  found  (now_ms int, place str, id bytes, score str, has_record bool, size int, body bytes, name bytes,
--                  created str, attempts str, error bytes, worker bytes)
--          gone   no such job
-- include: keys, clock, args
if not body_bytes then return redis.error_reply('ERR body_bytes is a whole number') end
local most = body_bytes < 0 and math.huge or math.max(4096, body_bytes)
-- include: job_row, find_place
local place = find_place(id)
if not place then return 'gone' end
local sets = {delayed = delayed, running = running, failed = failed}
local score = sets[place] and redis.call('ZSCORE', sets[place], id) or ''
return {'found', now_ms, place, unpack(job_row(id, score))}
