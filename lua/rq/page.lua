-- A page of the jobs of a place, in its order.
--
-- `size` is the length of `data`: -1 where the hash has none, -2 where there is no hash, -3 where its key holds something else.
-- `data` comes up to 4096 bytes, or up to `body_bytes` if that is more. `left_ms` is what is left of the hash's time to live,
-- -1 for none. `beat` and `runner` are those of an execution, `seen` is when RQ's maintenance first met a job in
-- `intermediate`, `error` the encoded error of the last run. The rest is the hash, as it is.
--
-- derived  <prefix>:job:<id>
--          <prefix>:results:<id>
--          <prefix>:execution:<member>
--          <prefix>:queue:<origin>:intermediate:first_seen:<id>
-- KEYS     scheduled         zset  id by due (s)
--          deferred          zset  id by since when (s)
--          ready_to_enqueue  zset  id by since when (s); RQ 3
--          queued            list  ids, the next one first
--          started           zset  id:execution by deadline (s)
--          intermediate      list  ids between queue and start
--          finished          zset  id by when it is forgotten (s)
--          failed            zset  id by when it is forgotten (s)
--          canceled          zset  id by since when (s)
-- ARGV     now_ms?     int  a test's clock; the server's when empty
--          prefix      str  before all keys: rq
--          place       str  one of the keys
--          offset      int  how many to pass over; -1 for the last page
--          limit       int  how many at most, 1 to 1000
--          body_bytes  int  data of up to so many bytes comes whole; -1: all
-- returns  page  (now_ms int, total int)
--                rows (id bytes, member bytes, score str, size int, data bytes, description bytes, left_ms int,
--                beat str, runner str, seen str, error bytes, status str, origin str, created_at str, enqueued_at str,
--                started_at str, ended_at str, worker_name str, timeout str, retries_left str, rate_limit_key str, ttl str)
local scheduled, deferred, ready_to_enqueue, queued, started, intermediate, finished, failed, canceled =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
for _, at in ipairs({1, 4, 5, 6}) do
  if #ARGV < 6 or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 6 arguments, whole numbers where the header says int; nothing was changed')
  end
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local prefix, place, offset, limit, body_bytes = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local zsets = {scheduled = scheduled, deferred = deferred, ready_to_enqueue = ready_to_enqueue, started = started,
  finished = finished, failed = failed, canceled = canceled}
local lists = {queued = queued, intermediate = intermediate}
if not zsets[place] and not lists[place] then return redis.error_reply('ERR there is no place ' .. place) end
if not limit or limit < 1 or limit > 1000 or not offset or not body_bytes then
  return redis.error_reply('ERR offset and body_bytes are whole numbers, limit is 1 to 1000')
end
local most = body_bytes < 0 and math.huge or math.max(4096, body_bytes)
-- block: rq_job
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
-- end
local total = zsets[place] and redis.call('ZCARD', zsets[place]) or redis.call('LLEN', lists[place])
offset = offset < 0 and math.max(0, total - limit) or offset + 0 -- of -0, too
local last, rows = offset + limit - 1, {}
if zsets[place] then
  local found = redis.call('ZRANGE', zsets[place], offset, last, 'WITHSCORES')
  for i = 1, #found, 2 do rows[#rows + 1] = job_row(place, found[i], found[i + 1]) end
else
  for _, member in ipairs(redis.call('LRANGE', lists[place], offset, last)) do rows[#rows + 1] = job_row(place, member, '') end
end
return {'page', now_ms, total, rows}
