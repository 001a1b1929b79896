-- Pack the fields of a job's hash that verbs change.
--
-- needs    prefix packed
-- gives    changing pack_changing
-- include: packed
local changing = {'status', 'enqueued_at', 'started_at', 'ended_at', 'worker_name', 'retries_left'}
local function pack_changing(id) -- an existing field begins with `=`, a missing one is empty
  local values = redis.pcall('HMGET', prefix .. ':job:' .. id, unpack(changing))
  for i = 1, #changing do values[i] = values[i] and '=' .. values[i] or '' end
  return packed(values)
end
