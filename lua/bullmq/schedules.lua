-- What job schedulers of BullMQ enqueue again and again, of one queue or of many; its next job says when, and is missing where it stopped.
--
-- At most 1000 schedulers. `next_ms` is when the next job is due. `standing` is what became of that job: `waits`, `runs`, `ended`, or
-- `gone` where its hash is not there. Of `data` and `opts` at most 4096 bytes come. A key of another
-- type is passed over.
--
-- derived  <prefix>:<queue>:repeat:<id>
-- KEYS     each (repeat zset)  of each queue: the schedulers by when their next job is due (ms)
-- ARGV     now_ms?  int  a test's clock; the server's when empty
-- returns  listed  (now_ms int)  rows (queue int, id bytes, next_ms str, standing str, name str, every str, pattern str, tz str, count str,
--                  limit str, end_date str, data bytes, opts bytes)  `queue` is the number of its keys, from 1

-- block: clock
if #ARGV < 1 or #ARGV[1] > 15 or string.find(ARGV[1], '%D') then
  return redis.error_reply('ERR now_ms is a whole number; nothing was changed')
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
-- end
local rows = {}
local function field(key, name)
  return redis.call('HSTRLEN', key, name) <= 4096 and redis.call('HGET', key, name) or ''
end
for at, schedulers in ipairs(KEYS) do
  local found = #rows < 1000 and redis.pcall('ZRANGE', schedulers, 0, 999 - #rows, 'WITHSCORES') or {}
  for i = 1, found.err and 0 or #found, 2 do
    local key = schedulers .. ':' .. found[i]
    local told = redis.pcall('HMGET', key, 'name', 'every', 'pattern', 'tz', 'ic', 'limit', 'endDate')
    local is_read = not told.err
    local row = {at, found[i], found[i + 1], 'gone'}
    for n = 1, 7 do row[n + 4] = is_read and string.sub(told[n] or '', 1, 1000) or '' end
    local job = redis.pcall('HMGET', key .. ':' .. string.format('%.0f', tonumber(found[i + 1]) or 0), 'name', 'finishedOn', 'processedOn')
    if not job.err and job[1] then row[4] = job[2] and 'ended' or job[3] and 'runs' or 'waits' end
    row[12], row[13] = is_read and field(key, 'data') or '', is_read and field(key, 'opts') or ''
    rows[#rows + 1] = row
  end
end
return {'listed', now_ms, rows}
