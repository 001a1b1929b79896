-- Check whether a job can be deleted, and delete all its data except its place.
--
-- needs    prefix read_fields leave_parents
-- gives    is_held count_dependents delete_data
-- include: leave_parents
local function is_held(id, status) -- a canceled job may still run; then its execution exists
  if status == 'started' then return true end
  local executions = redis.pcall('ZRANGE', prefix .. ':executions:' .. id, 0, -1)
  for _, execution in ipairs(executions.err and {} or executions) do
    if redis.call('EXISTS', prefix .. ':execution:' .. id .. ':' .. execution) == 1 then return true end
  end
  return false
end
local function count_dependents(id, leaving) -- the number of jobs that depend on it, without those that are deleted with it
  local key, count = prefix .. ':job:' .. id .. ':dependents', 0
  local size = redis.pcall('SCARD', key)
  if type(size) ~= 'number' or size > 1000 then return type(size) == 'number' and size or 0 end
  for _, other in ipairs(size > 0 and redis.call('SMEMBERS', key) or {}) do
    local values = not leaving[other] and read_fields(other, 'status')
    if values and values[1] == 'deferred' then count = count + 1 end
  end
  return count
end
local function delete_data(id, group)
  local key = prefix .. ':job:' .. id
  leave_parents(id)
  if (group or '') ~= '' then redis.pcall('SREM', prefix .. ':group:' .. group, id) end
  if type(redis.pcall('HLEN', key)) == 'number' then redis.call('DEL', key) end -- a key of another type stays
  redis.call('DEL', key .. ':dependents', prefix .. ':job::' .. id .. ':dependencies')
  redis.call('DEL', prefix .. ':results:' .. id, prefix .. ':executions:' .. id)
end
