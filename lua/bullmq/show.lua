-- Return all data of one job: its places, hash and log, the jobs that it waits for, and its parents.
--
-- The columns are those of `page`. `places` lists the places of the job, and `place` is the first of them, or empty. In the lists, the first
-- and the last 10 000 ids are searched. The table has rows by `kind`, at most 100 of each: `field`, a field of the hash without a column;
-- `long`, the length of a field of more than 64 kB; `log`, one of the last 100 lines of the log, and `logged`, the number of lines;
-- `child`, the key of a child with its state: waits, processed, failed or ignored; `name`, the name of the child `of`, with `gone` or
-- `failed` if that blocks the parent; `below`, like `child`, for the children of the child `of`; `children`, the number of children per
-- state; `parent`, the keys of the parents, the nearest first, with their names.
--
-- derived  <prefix>:<queue>:<id>
--          <prefix>:<queue>:<id>:lock
--          <prefix>:<queue>:<id>:logs
--          <prefix>:<queue>:<id>:dependencies
--          <prefix>:<queue>:<id>:processed
--          <prefix>:<queue>:<id>:failed
--          <prefix>:<queue>:<id>:unsuccessful
-- KEYS     delayed waiting_children prioritized wait paused active completed failed
-- ARGV     now_ms?     int    a test's clock; the server's when empty
--          p           str    prefix of all keys of the queue: bull:mail:
--          id          bytes  the job's id
--          body_bytes  int    return data up to this size; -1: any size
-- returns  found  (now_ms int, place str, places str, id bytes, member bytes, score str, size int, data bytes, name str, opts bytes,
--                 error bytes, trace bytes, lock bytes, lock_ms int, timestamp str, delay str, priority str, atm str, ats str,
--                 stc str, processed_on str, finished_on str, pb str, defa str, parent_key bytes, rjk bytes, deid bytes)
--                 rows (kind str, of bytes, name bytes, value bytes)
--          gone   no such job
-- include: keys, arguments, opening, args(id body_bytes)
if not body_bytes then return redis.error_reply('ERR body_bytes is a whole number') end
local most = body_bytes < 0 and math.huge or math.max(4096, body_bytes)
-- include: job_row, read
local job, rows = p .. id, {}
-- include: add_row
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
if #places == 0 and times[1] and not times[2] then -- the list is longer than the part that was searched
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
    add_field(name, length, not shown[name] and at <= 100)
  end
  local lines = redis.pcall('LLEN', job .. ':logs')
  if type(lines) == 'number' and lines > 0 then
    add('logged', '', '', tostring(lines))
    for at, line in ipairs(redis.call('LRANGE', job .. ':logs', -100, -1)) do add('log', '', tostring(at), line) end
  end
end
local function list_children(of, kind, name) -- the children of a job, each with its state
  local found = {}
  local waiting = redis.pcall('SSCAN', of .. ':dependencies', 0, 'COUNT', 100)
  for _, child in ipairs(not waiting.err and waiting[2] or {}) do found[#found + 1] = {child, 'waits'} end
  for _, ended in ipairs({{':processed', 'processed'}, {':failed', 'ignored'}}) do
    local values = redis.pcall('HSCAN', of .. ended[1], 0, 'COUNT', 100)
    for i = 1, values.err and 0 or #values[2], 2 do found[#found + 1] = {values[2][i], ended[2]} end
  end
  local bad = redis.pcall('ZRANGE', of .. ':unsuccessful', 0, 99)
  for i = 1, bad.err and 0 or #bad do found[#found + 1] = {bad[i], 'failed'} end
  table.sort(found, function(one, other) return one[1] < other[1] end)
  for i = 1, math.min(100, #found) do add(kind, name, found[i][1], found[i][2]) end
  return found
end
local found_children = list_children(job, 'child', '')
for i = 1, math.min(100, #found_children) do
  local values = redis.pcall('HMGET', found_children[i][1], 'name', 'failedReason', 'finishedOn')
  local is_stuck = found_children[i][2] == 'waits' and not values.err
  add('name', found_children[i][1], not values.err and values[1] or '', is_stuck and (not values[1] and 'gone' or values[2] and values[3] and 'failed') or '')
end
if #found_children > 0 then
  local numbers = {waits = redis.pcall('SCARD', job .. ':dependencies'), processed = redis.pcall('HLEN', job .. ':processed'),
    ignored = redis.pcall('HLEN', job .. ':failed'), failed = redis.pcall('ZCARD', job .. ':unsuccessful')}
  for _, kind_of_end in ipairs({'waits', 'processed', 'ignored', 'failed'}) do
    if type(numbers[kind_of_end]) == 'number' then add('children', '', kind_of_end, tostring(numbers[kind_of_end])) end
  end
  for i = 1, math.min(20, #found_children) do list_children(found_children[i][1], 'below', found_children[i][1]) end
end
local parent, nearer = row[22], 0
while type(parent) == 'string' and parent ~= '' and nearer < 10 do
  nearer = nearer + 1
  local values = redis.pcall('HMGET', parent, 'name', 'parentKey')
  add('parent', '', parent, not values.err and values[1] or '')
  parent = not values.err and values[2] or ''
end
local answer = {'found', now_ms, place, table.concat(places, ' '), unpack(row)}
answer[#answer + 1] = rows
return answer
