-- All about one job: where it stands, its hash, how its runs ended, what runs it, what it waits for and what waits for it.
--
-- `size` is the length of `data`: -1 where the hash has none, -2 where there is no hash, -3 where its key holds something else.
-- `data` comes up to 4096 bytes, or up to `body_bytes` if that is more. `left_ms` is what is left of the hash's time to live,
-- -1 for none. `beat` and `runner` are those of an execution, `seen` is when RQ's maintenance first met a job in
-- `intermediate`, `error` the encoded error of the last run. The rest is the hash, as it is.
-- `places` are all in which it stands, `place` is the first of them or, in none, '': of the queue's lists the first and the last
-- 25 000 ids are looked at. A job that another queue owns is gone here. The table has, by `kind`: `field`, a field of the hash
-- that the columns do not have; `long`, the length of one of more than 64 kB; `result`, a field of the stream's entry `id`; `execution`, a field of an
-- execution; `dependency` and `dependent`, another job and its queue. Of each at most 100.
--
-- derived  <prefix>:job:<id>
--          <prefix>:results:<id>
--          <prefix>:execution:<member>
--          <prefix>:queue:<origin>:intermediate:first_seen:<id>
--          <prefix>:executions:<id>
--          <prefix>:job:<id>:dependents
-- KEYS     scheduled         zset  id by due (s)
--          deferred          zset  id by since when (s)
--          ready_to_enqueue  zset  id by since when (s); RQ 3
--          queued            list  ids, the next one first
--          started           zset  id:execution by deadline (s)
--          intermediate      list  ids between queue and start
--          finished          zset  id by when it is forgotten (s)
--          failed            zset  id by when it is forgotten (s)
--          canceled          zset  id by since when (s)
-- ARGV     now_ms?     int    a test's clock; the server's when empty
--          prefix      str    before all keys: rq
--          queue       str    the queue that is looked at
--          id          bytes  the job's id
--          body_bytes  int    data of up to so many bytes comes whole; -1: always
-- returns  found  (now_ms int, place str, places str, id bytes, member bytes, score str, size int, data bytes, description bytes, left_ms int,
--                 beat str, runner str, seen str, error bytes, status str, origin str, created_at str, enqueued_at str,
--                 started_at str, ended_at str, worker_name str, timeout str, retries_left str, rate_limit_key str, ttl str)
--                 rows (kind str, of bytes, name bytes, value bytes)
--          gone   no such job
local scheduled, deferred, ready_to_enqueue, queued, started, intermediate, finished, failed, canceled =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
for _, at in ipairs({1, 5}) do
  if #ARGV < 5 or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 5 arguments, whole numbers where the header says int; nothing was changed')
  end
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local prefix, queue, id, body_bytes = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
if not body_bytes then return redis.error_reply('ERR body_bytes is a whole number') end
local most = body_bytes < 0 and math.huge or math.max(4096, body_bytes)
-- block: rq_job, read
local long = 65536
local function id_of(member) -- of `id:execution`, as RQ reads it
  return string.match(member, '^([^:]*):') or member
end
local function field(key, name, bytes)
  return redis.call('HSTRLEN', key, name) <= bytes and redis.call('HGET', key, name) or ''
end
local function failure(job_id, key) -- what the last run left: base64 of zlib; of old jobs in the hash: zlib
  local ends = redis.pcall('XREVRANGE', prefix .. ':results:' .. job_id, '+', '-', 'COUNT', 1)
  local told = not ends.err and ends[1] and ends[1][2] or {}
  for i = 1, #told, 2 do
    if told[i] == 'exc_string' then return string.sub(told[i + 1], 1, long) end
  end
  return field(key, 'exc_info', long)
end
local none = {'', '', '', '', '', '', '', '', '', '', '', '', '', '', ''}
local function job_row(where, member, score)
  local job_id = id_of(member)
  local key = prefix .. ':job:' .. job_id
  local told = redis.pcall('HMGET', key, 'status', 'origin', 'created_at', 'enqueued_at', 'started_at', 'ended_at',
    'worker_name', 'timeout', 'retries_left', 'rate_limit_key', 'ttl')
  if told.err then return {job_id, member, score, -3, '', '', -2, unpack(none)} end
  for i = 1, 11 do told[i] = string.sub(told[i] or '', 1, 1000) end
  local size, data, description = redis.call('HSTRLEN', key, 'data'), '', ''
  if size == 0 then
    size = redis.call('HEXISTS', key, 'data') == 1 and 0 or redis.call('EXISTS', key) == 1 and -1 or -2
  end
  if size > 0 and size <= most and redis.call('HSTRLEN', key, 'description') <= 4096 then
    local both = redis.call('HMGET', key, 'data', 'description')
    data, description = both[1], both[2] or ''
  elseif size ~= -2 then
    data = size > 0 and size <= most and redis.call('HGET', key, 'data') or ''
    description = field(key, 'description', 4096)
  end
  local beat, worker, seen = '', '', ''
  if where == 'started' then
    local run = redis.pcall('HMGET', prefix .. ':execution:' .. member, 'last_heartbeat', 'worker_name')
    beat, worker = run[1] or '', run[2] or ''
  elseif where == 'intermediate' then
    seen = redis.pcall('GET', prefix .. ':queue:' .. told[2] .. ':intermediate:first_seen:' .. job_id)
    seen = type(seen) == 'string' and seen or ''
  end
  local error = (where == 'failed' or told[1] == 'failed' or told[1] == 'stopped') and size ~= -2 and failure(job_id, key) or ''
  return {job_id, member, score, size, data, description, size ~= -2 and redis.call('PTTL', key) or -2, beat, worker, seen, error, unpack(told)}
end
local function read(...)
  local told = redis.pcall(...)
  if type(told) ~= 'table' or not told.err then return told end
  return not string.find(tostring(told.err), 'WRONGTYPE', 1, true) and redis.call(...) or nil
end
-- end
local job, rows = prefix .. ':job:' .. id, {}
local function add(kind, of, name, value)
  rows[#rows + 1] = {kind, of, name, #value <= long and value or string.sub(value, 1, long)}
end
local function flat(kind, of, values)
  for i = 1, values.err and 0 or #values, 2 do add(kind, of, values[i], values[i + 1]) end
end
local runs = redis.pcall('ZRANGE', prefix .. ':executions:' .. id, 0, 99)
local function run_of() -- what of it stands in `started`; an abandoned run has no execution any more
  for i = 1, runs.err and 0 or #runs do
    if read('ZSCORE', started, id .. ':' .. runs[i]) then return id .. ':' .. runs[i] end
  end
  if read('ZSCORE', started, id) then return id end
  for _, member in ipairs(read('ZRANGE', started, 0, 999) or {}) do
    if id_of(member) == id then return member end
  end
end
local status = redis.pcall('HGET', job, 'status')
local function in_list(name, key, most_ids) -- of a longer list than is looked at, the job's own word is taken
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
    if length > long then
      add('long', '', name, tostring(length))
    elseif not shown[name] and at <= 100 then
      add('field', '', name, redis.call('HGET', job, name))
    end
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
