-- Read fields of a job's hash. A hash without a name belongs to a deleted job, even if a worker wrote fields into it.
--
-- needs    p
-- gives    read_fields
local function read_fields(id, ...)
  local key = p .. id
  return redis.pcall('HEXISTS', key, 'name') == 1 and redis.call('HMGET', key, ...) or nil
end
