-- rq: what verbs change in the hash of a job.
-- needs    prefix packed
-- gives    changing line_of
local changing = {'status', 'enqueued_at', 'started_at', 'ended_at', 'worker_name', 'retries_left'}
local function line_of(id) -- a field that is there begins with `=`
  local told = redis.pcall('HMGET', prefix .. ':job:' .. id, unpack(changing))
  for i = 1, #changing do told[i] = told[i] and '=' .. told[i] or '' end
  return packed(told)
end
