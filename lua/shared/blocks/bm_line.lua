-- bullmq: what verbs change of a job, beside its place.
-- needs    p packed
-- gives    changing line_of
local changing = {'delay', 'priority', 'finishedOn', 'processedOn', 'failedReason', 'returnvalue', 'atm', 'ats', 'stc', 'defa'}
local function line_of(id) -- a field that is there begins with `=`
  local told = redis.pcall('HMGET', p .. id, unpack(changing))
  for i = 1, #changing do told[i] = told[i] and '=' .. told[i] or '' end
  return packed(told)
end
