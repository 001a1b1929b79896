-- rq: what the hash of a job says; a key without `data`, or of another program, is no job.
-- needs    prefix
-- gives    fields
local function fields(id, ...)
  local key = prefix .. ':job:' .. id
  return redis.pcall('HEXISTS', key, 'data') == 1 and redis.call('HMGET', key, ...) or nil
end
