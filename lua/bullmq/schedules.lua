-- List the job schedulers of one or many queues. The next job of a scheduler has its due time; a stopped scheduler has no such job.
--
-- The reply has at most 1000 schedulers. `next_ms` is the due time of the next job. `next_state` is the state of that job: `waits`,
-- `runs`, `ended`, or `gone` if its hash is missing. `data` and `opts` are returned up to 4096 bytes. Keys of another type are skipped.
--
-- derived  <prefix>:<queue>:repeat:<id>
-- KEYS     each (repeat zset)  per queue: scheduler by its next run (ms)
-- ARGV     now_ms?  int  a test's clock; the server's when empty
-- returns  listed  (now_ms int)  rows (queue int, id bytes, next_ms str, next_state str, name str, every str, pattern str, tz str, count str,
--                  limit str, end_date str, data bytes, opts bytes)  `queue` is the position of its key, from 1
-- include: clock
local rows = {}
local function field(key, name)
  return redis.call('HSTRLEN', key, name) <= 4096 and redis.call('HGET', key, name) or ''
end
for at, schedulers in ipairs(KEYS) do
  local found = #rows < 1000 and redis.pcall('ZRANGE', schedulers, 0, 999 - #rows, 'WITHSCORES') or {}
  for i = 1, found.err and 0 or #found, 2 do
    local key = schedulers .. ':' .. found[i]
    local values = redis.pcall('HMGET', key, 'name', 'every', 'pattern', 'tz', 'ic', 'limit', 'endDate')
    local is_read = not values.err
    local row = {at, found[i], found[i + 1], 'gone'}
    for n = 1, 7 do row[n + 4] = is_read and string.sub(values[n] or '', 1, 1000) or '' end
    local job = redis.pcall('HMGET', key .. ':' .. string.format('%.0f', tonumber(found[i + 1]) or 0), 'name', 'finishedOn', 'processedOn')
    if not job.err and job[1] then row[4] = job[2] and 'ended' or job[3] and 'runs' or 'waits' end
    row[12], row[13] = is_read and field(key, 'data') or '', is_read and field(key, 'opts') or ''
    rows[#rows + 1] = row
  end
end
return {'listed', now_ms, rows}
