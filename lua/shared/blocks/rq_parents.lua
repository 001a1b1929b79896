-- rq: a job that waits for its parents no more: else RQ enqueues it once more when the last of them ends.
-- needs    prefix
-- gives    leave_parents
local function leave_parents(id)
  local parents = redis.pcall('SMEMBERS', prefix .. ':job::' .. id .. ':dependencies')
  for _, parent in ipairs(parents.err and {} or parents) do
    redis.pcall('SREM', prefix .. ':job:' .. parent .. ':dependents', id)
  end
end
