-- rq: whether a job may be erased, and how all that Redis keeps of it goes, but for its place.
-- needs    prefix fields leave_parents
-- gives    is_held waiting erase
local function is_held(id, status) -- a canceled job may run on: its execution beats
  if status == 'started' then return true end
  local executions = redis.pcall('ZRANGE', prefix .. ':executions:' .. id, 0, -1)
  for _, execution in ipairs(executions.err and {} or executions) do
    if redis.call('EXISTS', prefix .. ':execution:' .. id .. ':' .. execution) == 1 then return true end
  end
  return false
end
local function waiting(id, leaving) -- how many jobs wait for it, but for those that leave with it
  local key, count = prefix .. ':job:' .. id .. ':dependents', 0
  local size = redis.pcall('SCARD', key)
  if type(size) ~= 'number' or size > 1000 then return type(size) == 'number' and size or 0 end
  for _, other in ipairs(size > 0 and redis.call('SMEMBERS', key) or {}) do
    local told = not leaving[other] and fields(other, 'status')
    if told and told[1] == 'deferred' then count = count + 1 end
  end
  return count
end
local function erase(id, group)
  local key = prefix .. ':job:' .. id
  leave_parents(id)
  if (group or '') ~= '' then redis.pcall('SREM', prefix .. ':group:' .. group, id) end
  if type(redis.pcall('HLEN', key)) == 'number' then redis.call('DEL', key) end -- not another program's key
  redis.call('DEL', key .. ':dependents', prefix .. ':job::' .. id .. ':dependencies')
  redis.call('DEL', prefix .. ':results:' .. id, prefix .. ':executions:' .. id)
end
