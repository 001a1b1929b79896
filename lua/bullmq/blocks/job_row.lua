-- Read a job as a row of `page`.
--
-- needs    p
--          most  return `data` up to this number of bytes
-- gives    long job_row
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
  local values = redis.pcall('HMGET', key, 'name', 'timestamp', 'delay', 'priority', 'atm', 'ats', 'stc', 'processedOn', 'finishedOn',
    'pb', 'defa', 'parentKey', 'rjk', 'deid', 'attemptsMade')
  if values.err then
    return {job_id, job_id, score, -3, '', '', '', '', '', lock, lock_ms, '', '', '', '', '', '', '', '', '', '', '', '', ''}
  end
  for i = 1, 15 do values[i] = string.sub(values[i] or '', 1, 1000) end
  local size = redis.call('HSTRLEN', key, 'data')
  if size == 0 then
    size = redis.call('HEXISTS', key, 'data') == 1 and 0 or redis.call('EXISTS', key) == 1 and -1 or -2
  end
  local data = size > 0 and size <= most and redis.call('HGET', key, 'data') or ''
  local opts, error, trace = '', '', ''
  if size ~= -2 then
    opts = field(key, 'opts', long)
    if where == 'failed' or values[5] ~= '' or values[9] ~= '' then
      error, trace = field(key, 'failedReason', long), field(key, 'stacktrace', long)
    end
  end
  return {job_id, job_id, score, size, data, values[1], opts, error, trace, lock, lock_ms, values[2], values[3], values[4], values[5] ~= '' and values[5] or values[15],
    values[6], values[7], values[8], values[9], values[10], values[11], values[12], values[13], values[14]}
end
