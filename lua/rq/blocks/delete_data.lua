-- Count the jobs that depend on a job, and delete all data of a job except its place.
--
-- needs    prefix read_fields leave_parents
-- gives    count_dependents delete_data
-- include: leave_parents
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
