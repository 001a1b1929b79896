-- Read fields of a job's hash. Returns nil for a key of another type, and for a hash without `data`.
--
-- needs    prefix
-- gives    read_fields
local function read_fields(id, ...)
  local key = prefix .. ':job:' .. id
  return redis.pcall('HEXISTS', key, 'data') == 1 and redis.call('HMGET', key, ...) or nil
end
