-- bullmq: what the hash of a job holds. A hash without a name is a ghost's, whatever a worker wrote into it.
-- needs    p
-- gives    fields
local function fields(id, ...)
  local key = p .. id
  return redis.pcall('HEXISTS', key, 'name') == 1 and redis.call('HMGET', key, ...) or nil
end
