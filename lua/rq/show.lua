-- Return all data of one job: its places and hash, the results of its runs, its execution, and the jobs that it depends on.
--
-- The columns are those of `page`. `places` lists the places of the job, and `place` is the first of them, or empty. In the lists, the first
-- and the last 25 000 ids are searched. A job of another queue is `gone` here. The table has rows by `kind`, at most 100 of each: `field`,
-- a field of the hash without a column; `long`, the length of a field of more than 64 kB; `result`, a field of the stream's entry `id`;
-- `execution`, a field of an execution; `dependency` and `dependent`, another job and its queue.
--
-- derived  <prefix>:job:<id>
--          <prefix>:results:<id>
--          <prefix>:execution:<member>
--          <prefix>:queue:<origin>:intermediate:first_seen:<id>
--          <prefix>:executions:<id>
--          <prefix>:job:<id>:dependents
-- KEYS     scheduled deferred ready_to_enqueue queued started intermediate finished failed canceled
-- ARGV     now_ms?     int    a test's clock; the server's when empty
--          prefix      str    prefix of all keys: rq
--          queue       str    name of the queue
--          id          bytes  the job's id
--          body_bytes  int    return data up to this size; -1: any size
-- returns  found  (now_ms int, place str, places str, id bytes, member bytes, score str, size int, data bytes, description bytes, left_ms int,
--                 beat str, runner str, seen str, error bytes, status str, origin str, created_at str, enqueued_at str,
--                 started_at str, ended_at str, worker_name str, timeout str, retries_left str, rate_limit_key str, ttl str)
--                 rows (kind str, of bytes, name bytes, value bytes)
--          gone   no such job
-- include: keys, arguments, clock_prefix, args(queue id body_bytes)
if not body_bytes then return redis.error_reply('ERR body_bytes is a whole number') end
local most = body_bytes < 0 and math.huge or math.max(4096, body_bytes)
-- include: job_row, read
local job, rows = prefix .. ':job:' .. id, {}
-- include: add_row
local function flat(kind, of, values)
  for i = 1, values.err and 0 or #values, 2 do add(kind, of, values[i], values[i + 1]) end
end
local runs = redis.pcall('ZRANGE', prefix .. ':executions:' .. id, 0, 99)
local function run_of() -- its member in `started`; an abandoned run has no execution any more
  for i = 1, runs.err and 0 or #runs do
    if read('ZSCORE', started, id .. ':' .. runs[i]) then return id .. ':' .. runs[i] end
  end
  if read('ZSCORE', started, id) then return id end
  for _, member in ipairs(read('ZRANGE', started, 0, 999) or {}) do
    if id_of(member) == id then return member end
  end
end
local status = redis.pcall('HGET', job, 'status')
local function in_list(name, key, most_ids) -- in a list that is longer than the searched part, the status of the job decides
  local length = read('LLEN', key)
  if not length then return false end
  return redis.call('LPOS', key, id, 'MAXLEN', most_ids) or redis.call('LPOS', key, id, 'RANK', -1, 'MAXLEN', most_ids)
    or status == name and length > 2 * most_ids
end
local run = run_of()
local places, members, scores = {}, {started = run}, {started = run and read('ZSCORE', started, run)}
for _, each in ipairs({{'started', started}, {'failed', failed}, {'scheduled', scheduled}, {'deferred', deferred},
  {'ready_to_enqueue', ready_to_enqueue}, {'finished', finished}, {'canceled', canceled}}) do
  scores[each[1]] = scores[each[1]] or read('ZSCORE', each[2], id)
  if scores[each[1]] then places[#places + 1] = each[1] end
end
for _, each in ipairs({{'intermediate', intermediate, 1000}, {'queued', queued, 25000}}) do
  if in_list(unpack(each)) then places[#places + 1] = each[1] end
end
local place = places[1] or ''
for _, each in ipairs(places) do
  if each == status then place = each end
end
local member, score = members[place] or id, scores[place] or ''
local row = job_row(place, member, score)
local size, origin = row[4], row[13]
if place == '' and (size < -1 or origin ~= queue) then return 'gone' end
if size > -2 then
  local shown = {data = true, exc_info = true}
  for _, name in ipairs({'description', 'status', 'origin', 'created_at', 'enqueued_at', 'started_at', 'ended_at', 'worker_name',
    'timeout', 'retries_left', 'rate_limit_key', 'ttl'}) do shown[name] = true end
  for at, name in ipairs(redis.call('HLEN', job) <= 1000 and redis.call('HKEYS', job) or {}) do
    local length = shown[name] and 0 or redis.call('HSTRLEN', job, name)
    add_field(name, length, not shown[name] and at <= 100)
  end
end
local ends = redis.pcall('XREVRANGE', prefix .. ':results:' .. id, '+', '-', 'COUNT', 10)
for i = ends.err and 0 or #ends, 1, -1 do flat('result', ends[i][1], ends[i][2]) end
for i = 1, runs.err and 0 or #runs do
  flat('execution', runs[i], redis.pcall('HGETALL', prefix .. ':execution:' .. id .. ':' .. runs[i]))
end
local function other(kind, each)
  local owner = redis.pcall('HGET', prefix .. ':job:' .. each, 'origin')
  add(kind, each, 'origin', type(owner) == 'string' and owner or '')
end
local named = size > -2 and field(job, 'dependency_ids', long) or ''
local number = 0
for each in string.gmatch(named, '"([^"]+)"') do
  number = number + 1
  if number <= 100 then other('dependency', each) end
end
local waiting = redis.pcall('SSCAN', job .. ':dependents', 0, 'COUNT', 100)
waiting = waiting.err and {} or waiting[2]
table.sort(waiting)
for i = 1, math.min(100, #waiting) do other('dependent', waiting[i]) end
local answer = {'found', now_ms, place, table.concat(places, ' '), unpack(row)}
answer[#answer + 1] = rows
return answer
