-- Remove a job from the dependents of its parents. Otherwise RQ would enqueue it again when the last parent ends.
--
-- needs    prefix
-- gives    leave_parents
local function leave_parents(id)
  local parents = redis.pcall('SMEMBERS', prefix .. ':job::' .. id .. ':dependencies')
  for _, parent in ipairs(parents.err and {} or parents) do
    redis.pcall('SREM', prefix .. ':job:' .. parent .. ':dependents', id)
  end
end
