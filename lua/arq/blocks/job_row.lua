-- Build the row of a job that is in the queue.
--
-- needs    abort
--          most  return the record up to this number of bytes
-- gives    job_row
local function job_row(id, score)
  local size, record = redis.pcall('STRLEN', 'arq:job:' .. id), ''
  size = type(size) == 'number' and size or -1
  if size > 0 and size <= most then record = redis.call('GET', 'arq:job:' .. id) end
  local tries, asked = redis.pcall('GET', 'arq:retry:' .. id), redis.pcall('ZSCORE', abort, id)
  return {
    id, score, size, record, redis.call('PTTL', 'arq:job:' .. id), type(tries) == 'string' and string.sub(tries, 1, 20) or '',
    redis.call('PTTL', 'arq:in-progress:' .. id), type(asked) == 'string' and asked or '', '', '',
  }
end
