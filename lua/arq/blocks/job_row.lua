-- Build the row of a job that is in the queue.
--
-- needs    abort
--          most  a longer record is cut after 4096 bytes
-- gives    job_row
local function job_row(job_id, score)
  local size, record = redis.pcall('STRLEN', 'arq:job:' .. job_id), ''
  size = type(size) == 'number' and size or -1
  if size > 0 then record = redis.call('GETRANGE', 'arq:job:' .. job_id, 0, size <= most and -1 or 4095) end
  local tries, asked = redis.pcall('GET', 'arq:retry:' .. job_id), redis.pcall('ZSCORE', abort, job_id)
  return {
    job_id, score, size, record, redis.call('PTTL', 'arq:job:' .. job_id), type(tries) == 'string' and string.sub(tries, 1, 20) or '',
    redis.call('PTTL', 'arq:in-progress:' .. job_id), type(asked) == 'string' and asked or '', '', '',
  }
end
