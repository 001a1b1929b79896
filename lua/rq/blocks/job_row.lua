-- Read a job as a row of `page`: its hash, the result of its last run, and its execution. Long values are left out.
--
-- needs    prefix
--          most  return `data` up to this number of bytes
-- gives    long id_of field job_row
local long = 65536
local function id_of(member) -- RQ splits `id:execution` at the first colon, too
  return string.match(member, '^([^:]*):') or member
end
local function field(key, name, bytes)
  return redis.call('HSTRLEN', key, name) <= bytes and redis.call('HGET', key, name) or ''
end
local function read_error(job_id, key) -- the error of the last run, base64 of zlib; old jobs have it in the hash, as zlib
  local ends = redis.pcall('XREVRANGE', prefix .. ':results:' .. job_id, '+', '-', 'COUNT', 1)
  local values = not ends.err and ends[1] and ends[1][2] or {}
  for i = 1, #values, 2 do
    if values[i] == 'exc_string' then return string.sub(values[i + 1], 1, long) end
  end
  return field(key, 'exc_info', long)
end
local none = {'', '', '', '', '', '', '', '', '', '', '', '', '', '', ''}
local function job_row(where, member, score)
  local job_id = id_of(member)
  local key = prefix .. ':job:' .. job_id
  local values = redis.pcall('HMGET', key, 'status', 'origin', 'created_at', 'enqueued_at', 'started_at', 'ended_at',
    'worker_name', 'timeout', 'retries_left', 'rate_limit_key', 'ttl')
  if values.err then return {job_id, member, score, -3, '', '', -2, unpack(none)} end
  for i = 1, 11 do values[i] = string.sub(values[i] or '', 1, 1000) end
  local size = redis.call('HSTRLEN', key, 'data')
  if size == 0 then
    size = redis.call('HEXISTS', key, 'data') == 1 and 0 or redis.call('EXISTS', key) == 1 and -1 or -2
  end
  local has_data, has_text = size <= most, size ~= -2 and redis.call('HSTRLEN', key, 'description') <= 4096
  local both = has_data and has_text and redis.call('HMGET', key, 'data', 'description')
    or {has_data and redis.call('HGET', key, 'data'), has_text and redis.call('HGET', key, 'description')}
  local beat, worker, seen = '', '', ''
  if where == 'started' then
    local run = redis.pcall('HMGET', prefix .. ':execution:' .. member, 'last_heartbeat', 'worker_name')
    beat, worker = run[1] or '', run[2] or ''
  elseif where == 'intermediate' then
    seen = redis.pcall('GET', prefix .. ':queue:' .. values[2] .. ':intermediate:first_seen:' .. job_id)
    seen = type(seen) == 'string' and seen or ''
  end
  local error = (where == 'failed' or values[1] == 'failed' or values[1] == 'stopped') and size ~= -2 and read_error(job_id, key) or ''
  return {job_id, member, score, size, both[1] or '', both[2] or '', size ~= -2 and redis.call('PTTL', key) or -2, beat, worker, seen, error, unpack(values)}
end
