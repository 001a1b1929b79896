-- Pack the fields of a job that verbs change.
--
-- needs    p packed
-- gives    changing pack_changing
-- include: packed
local changing = {'delay', 'priority', 'finishedOn', 'processedOn', 'failedReason', 'returnvalue', 'atm', 'ats', 'stc', 'defa'}
local function pack_changing(id) -- an existing field begins with `=`, a missing one is empty
  local values = redis.pcall('HMGET', p .. id, unpack(changing))
  for i = 1, #changing do values[i] = values[i] and '=' .. values[i] or '' end
  return packed(values)
end
