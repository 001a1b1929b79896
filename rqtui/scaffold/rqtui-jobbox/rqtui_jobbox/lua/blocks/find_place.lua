-- Find the place of a job. The list is searched as a whole, so its cost grows with the length of the queue.
--
-- needs    delayed waiting running failed
-- gives    find_place  nil if the job is in no place
local function find_place(id)
  if redis.call('ZSCORE', running, id) then return 'running' end
  if redis.call('ZSCORE', delayed, id) then return 'delayed' end
  if redis.call('ZSCORE', failed, id) then return 'failed' end
  return redis.call('LPOS', waiting, id) and 'waiting' or nil
end
