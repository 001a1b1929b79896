-- Read the record of a job as a row of `page` and `show`.
--
-- needs    most     return a body of up to so many bytes
-- gives    job_row  columns: id, score, has_record, size, body, name, created, attempts, error, worker
local function job_row(id, score)
  local key = 'jobbox:job:' .. id
  local has_record = redis.pcall('HEXISTS', key, 'body') == 1
  local size = has_record and redis.call('HSTRLEN', key, 'body') or 0
  local values = has_record and redis.call('HMGET', key, 'name', 'created', 'attempts', 'error', 'worker') or {}
  local body = size > 0 and size <= most and redis.call('HGET', key, 'body') or ''
  return {id, score, has_record and 1 or 0, size, body, values[1] or '', values[2] or '', values[3] or '',
    string.sub(values[4] or '', 1, 65536), values[5] or ''}
end
