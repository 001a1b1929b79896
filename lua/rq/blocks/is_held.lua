-- Check whether a worker runs a job. A canceled job may still run; then its execution exists.
--
-- needs    prefix
-- gives    is_held
local function is_held(id, status)
  if status == 'started' then return true end
  local executions = redis.pcall('ZRANGE', prefix .. ':executions:' .. id, 0, -1)
  for _, execution in ipairs(executions.err and {} or executions) do
    if redis.call('EXISTS', prefix .. ':execution:' .. id .. ':' .. execution) == 1 then return true end
  end
  return false
end
