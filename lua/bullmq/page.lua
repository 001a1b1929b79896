-- A page of the jobs of a place, in its order: the job that is next comes first.
--
-- `size` is the length of `data`: -1 where the hash has none, -2 where there is no hash, -3 where its key holds something else.
-- `data` comes up to 4096 bytes, or up to `body_bytes` if that is more; `opts`, `error` (the failedReason) and `trace` (the
-- JSON list of stack traces) up to 64 kB. `lock` is who runs an active job, `lock_ms` how long the lock still lives, -2 without
-- one. The rest is the hash, as it is.
--
-- derived  <prefix>:<queue>:<id>
--          <prefix>:<queue>:<id>:lock
-- KEYS     delayed           zset    id by due (ms × 4096)
--          waiting_children  zset    id by since when (ms)
--          prioritized       zset    id by priority × 2^32, then arrival
--          wait              list    ids, the next one last
--          paused            list    ids while BullMQ 5 is paused, the next one last
--          active            list    ids that run, the oldest run last
--          completed         zset    id by when (ms)
--          failed            zset    id by when (ms)
-- ARGV     now_ms?     int  a test's clock; the server's when empty
--          p           str  before all keys of the queue: bull:mail:
--          place       str  one of the keys
--          offset      int  how many to pass over; -1 for the last page
--          limit       int  how many at most, 1 to 1000
--          body_bytes  int  data of up to so many bytes comes whole; -1: all
-- returns  page  (now_ms int, total int)
--                rows (id bytes, member bytes, score str, size int, data bytes, name str, opts bytes, error bytes, trace bytes, lock bytes,
--                lock_ms int, timestamp str, delay str, priority str, atm str, ats str, stc str, processed_on str, finished_on str,
--                pb str, defa str, parent_key bytes, rjk bytes, deid bytes)
local delayed, waiting_children, prioritized, wait, paused, active, completed, failed =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
for _, at in ipairs({1, 4, 5, 6}) do
  if #ARGV < 6 or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 6 arguments, whole numbers where the header says int; nothing was changed')
  end
end
-- block: bullmq_opening
if #ARGV[1] > 15 or string.find(ARGV[1], '%D') then
  return redis.error_reply('ERR now_ms is a whole number; nothing was changed')
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local p = ARGV[2]
-- end
local place, offset, limit, body_bytes = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local zsets = {delayed = delayed, waiting_children = waiting_children, prioritized = prioritized, completed = completed, failed = failed}
local lists = {wait = wait, paused = paused, active = active}
if not zsets[place] and not lists[place] then return redis.error_reply('ERR there is no place ' .. place) end
if not limit or limit < 1 or limit > 1000 or not offset or not body_bytes then
  return redis.error_reply('ERR offset and body_bytes are whole numbers, limit is 1 to 1000')
end
local most = body_bytes < 0 and math.huge or math.max(4096, body_bytes)
-- block: bullmq_job
local long = 65536
local function field(key, name, bytes)
  return redis.call('HSTRLEN', key, name) <= bytes and redis.call('HGET', key, name) or ''
end
local function job_row(where, job_id, score)
  local key, lock, lock_ms = p .. job_id, '', -2
  if where == 'active' then
    local held = redis.pcall('GET', key .. ':lock')
    lock = type(held) == 'string' and string.sub(held, 1, 1000) or ''
    lock_ms = lock ~= '' and redis.call('PTTL', key .. ':lock') or -2
  end
  local told = redis.pcall('HMGET', key, 'name', 'timestamp', 'delay', 'priority', 'atm', 'ats', 'stc', 'processedOn', 'finishedOn',
    'pb', 'defa', 'parentKey', 'rjk', 'deid', 'attemptsMade')
  if told.err then
    return {job_id, job_id, score, -3, '', '', '', '', '', lock, lock_ms, '', '', '', '', '', '', '', '', '', '', '', '', ''}
  end
  for i = 1, 15 do told[i] = string.sub(told[i] or '', 1, 1000) end
  local size = redis.call('HSTRLEN', key, 'data')
  if size == 0 then
    size = redis.call('HEXISTS', key, 'data') == 1 and 0 or redis.call('EXISTS', key) == 1 and -1 or -2
  end
  local data = size > 0 and size <= most and redis.call('HGET', key, 'data') or ''
  local opts, error, trace = '', '', ''
  if size ~= -2 then
    opts = field(key, 'opts', long)
    if where == 'failed' or told[5] ~= '' or told[9] ~= '' then
      error, trace = field(key, 'failedReason', long), field(key, 'stacktrace', long)
    end
  end
  return {job_id, job_id, score, size, data, told[1], opts, error, trace, lock, lock_ms, told[2], told[3], told[4], told[5] ~= '' and told[5] or told[15],
    told[6], told[7], told[8], told[9], told[10], told[11], told[12], told[13], told[14]}
end
-- end
local total = zsets[place] and redis.call('ZCARD', zsets[place]) or redis.call('LLEN', lists[place])
offset = offset < 0 and math.max(0, total - limit) or offset + 0 -- of -0, too
local rows = {}
if zsets[place] then
  local found = redis.call('ZRANGE', zsets[place], offset, offset + limit - 1, 'WITHSCORES')
  for i = 1, #found, 2 do rows[#rows + 1] = job_row(place, found[i], found[i + 1]) end
elseif offset < total then -- they come in at the left, and leave at the right
  local found = redis.call('LRANGE', lists[place], -offset - limit, -offset - 1)
  for i = #found, 1, -1 do rows[#rows + 1] = job_row(place, found[i], '') end
end
return {'page', now_ms, total, rows}
