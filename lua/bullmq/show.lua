-- All about one job: where it stands, its hash, its log, what it waits for and what waits for it.
--
-- The columns are those of `page`. `places` are all in which it stands, `place` is the first of them or, in none, '': of the queue's lists
-- the first and the last 10 000 ids are looked at. The table has, by `kind`: `field`, a field of the hash that the columns do not have;
-- `long`, the length of one of more than 64 kB; `log`, one of the last 100 lines of its log, with `logged`, how many there are; `child`,
-- the key of a job that it waits or waited for, with what became of it: waits, processed, failed, ignored; `name`, the name of such a job `of`, with `gone` or
-- `failed` where that keeps it waiting; `below`, the same as `child` of what the child `of` itself waits for; `children`, how many of each kind there are; `parent`, the keys of its parents, the nearest first, with their names.
-- Of each at most 100.
--
-- derived  <prefix>:<queue>:<id>
--          <prefix>:<queue>:<id>:lock
--          <prefix>:<queue>:<id>:logs
--          <prefix>:<queue>:<id>:dependencies
--          <prefix>:<queue>:<id>:processed
--          <prefix>:<queue>:<id>:failed
--          <prefix>:<queue>:<id>:unsuccessful
-- KEYS     delayed           zset    id by due (ms × 4096)
--          waiting_children  zset    id by since when (ms)
--          prioritized       zset    id by priority × 2^32, then arrival
--          wait              list    ids, the next one last
--          paused            list    ids while BullMQ 5 is paused, the next one last
--          active            list    ids that run, the oldest run last
--          completed         zset    id by when (ms)
--          failed            zset    id by when (ms)
-- ARGV     now_ms?     int    a test's clock; the server's when empty
--          p           str    before all keys of the queue: bull:mail:
--          id          bytes  the job's id
--          body_bytes  int    data of up to so many bytes comes whole; -1: always
-- returns  found  (now_ms int, place str, places str, id bytes, member bytes, score str, size int, data bytes, name str, opts bytes,
--                 error bytes, trace bytes, lock bytes, lock_ms int, timestamp str, delay str, priority str, atm str, ats str,
--                 stc str, processed_on str, finished_on str, pb str, defa str, parent_key bytes, rjk bytes, deid bytes)
--                 rows (kind str, of bytes, name bytes, value bytes)
--          gone   no such job
local delayed, waiting_children, prioritized, wait, paused, active, completed, failed =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
for _, at in ipairs({1, 4}) do
  if #ARGV < 4 or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 4 arguments, whole numbers where the header says int; nothing was changed')
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
local id, body_bytes = ARGV[3], tonumber(ARGV[4])
if not body_bytes then return redis.error_reply('ERR body_bytes is a whole number') end
local most = body_bytes < 0 and math.huge or math.max(4096, body_bytes)
-- block: bullmq_job, read
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
local function read(...)
  local told = redis.pcall(...)
  if type(told) ~= 'table' or not told.err then return told end
  return not string.find(tostring(told.err), 'WRONGTYPE', 1, true) and redis.call(...) or nil
end
-- end
local job, rows = p .. id, {}
local function add(kind, of, name, value)
  rows[#rows + 1] = {kind, of, name, #value <= long and value or string.sub(value, 1, long)}
end
local function in_list(key, most_ids)
  return read('LPOS', key, id, 'MAXLEN', most_ids) or read('LPOS', key, id, 'RANK', -1, 'MAXLEN', most_ids)
end
local places, scores = {}, {}
for _, each in ipairs({{'active', active}, {'wait', wait}, {'paused', paused}}) do
  if in_list(each[2], 10000) then places[#places + 1] = each[1] end
end
for _, each in ipairs({{'failed', failed}, {'completed', completed}, {'delayed', delayed}, {'prioritized', prioritized},
  {'waiting_children', waiting_children}}) do
  scores[each[1]] = read('ZSCORE', each[2], id)
  if scores[each[1]] then places[#places + 1] = each[1] end
end
local times = redis.pcall('HMGET', job, 'name', 'finishedOn')
if #places == 0 and times[1] and not times[2] then -- of a longer list than is looked at
  for _, each in ipairs({{'wait', wait}, {'paused', paused}}) do
    if #places == 0 and (read('LLEN', each[2]) or 0) > 20000 then places[1] = each[1] end
  end
end
local place = places[1] or ''
local row = job_row(place, id, scores[place] or '')
local size = row[4]
if place == '' and (times.err or not times[1]) then return 'gone' end
if size > -2 then
  local shown = {data = true, failedReason = true, stacktrace = true, opts = true, parent = true}
  for _, name in ipairs({'name', 'timestamp', 'delay', 'priority', 'atm', 'ats', 'stc', 'processedOn', 'finishedOn', 'pb', 'defa',
    'parentKey', 'rjk', 'deid', 'attemptsMade'}) do shown[name] = true end
  for at, name in ipairs(redis.call('HLEN', job) <= 1000 and redis.call('HKEYS', job) or {}) do
    local length = name ~= 'data' and redis.call('HSTRLEN', job, name) or 0
    if length > long then
      add('long', '', name, tostring(length))
    elseif not shown[name] and at <= 100 then
      add('field', '', name, redis.call('HGET', job, name))
    end
  end
  local lines = redis.pcall('LLEN', job .. ':logs')
  if type(lines) == 'number' and lines > 0 then
    add('logged', '', '', tostring(lines))
    for at, line in ipairs(redis.call('LRANGE', job .. ':logs', -100, -1)) do add('log', '', tostring(at), line) end
  end
end
local function children(of, kind, name) -- what a job waits for, and what became of those that ended
  local found = {}
  local waiting = redis.pcall('SSCAN', of .. ':dependencies', 0, 'COUNT', 100)
  for _, child in ipairs(not waiting.err and waiting[2] or {}) do found[#found + 1] = {child, 'waits'} end
  for _, ended in ipairs({{':processed', 'processed'}, {':failed', 'ignored'}}) do
    local told = redis.pcall('HSCAN', of .. ended[1], 0, 'COUNT', 100)
    for i = 1, told.err and 0 or #told[2], 2 do found[#found + 1] = {told[2][i], ended[2]} end
  end
  local bad = redis.pcall('ZRANGE', of .. ':unsuccessful', 0, 99)
  for i = 1, bad.err and 0 or #bad do found[#found + 1] = {bad[i], 'failed'} end
  table.sort(found, function(one, other) return one[1] < other[1] end)
  for i = 1, math.min(100, #found) do add(kind, name, found[i][1], found[i][2]) end
  return found
end
local known = children(job, 'child', '')
for i = 1, math.min(100, #known) do
  local told = redis.pcall('HMGET', known[i][1], 'name', 'failedReason', 'finishedOn')
  local is_stuck = known[i][2] == 'waits' and not told.err
  add('name', known[i][1], not told.err and told[1] or '', is_stuck and (not told[1] and 'gone' or told[2] and told[3] and 'failed') or '')
end
if #known > 0 then
  local numbers = {waits = redis.pcall('SCARD', job .. ':dependencies'), processed = redis.pcall('HLEN', job .. ':processed'),
    ignored = redis.pcall('HLEN', job .. ':failed'), failed = redis.pcall('ZCARD', job .. ':unsuccessful')}
  for _, what in ipairs({'waits', 'processed', 'ignored', 'failed'}) do
    if type(numbers[what]) == 'number' then add('children', '', what, tostring(numbers[what])) end
  end
  for i = 1, math.min(20, #known) do children(known[i][1], 'below', known[i][1]) end
end
local parent, nearer = row[22], 0
while type(parent) == 'string' and parent ~= '' and nearer < 10 do
  nearer = nearer + 1
  local told = redis.pcall('HMGET', parent, 'name', 'parentKey')
  add('parent', '', parent, not told.err and told[1] or '')
  parent = not told.err and told[2] or ''
end
local answer = {'found', now_ms, place, table.concat(places, ' '), unpack(row)}
answer[#answer + 1] = rows
return answer
