-- Write bookkeeping: counters, events, minutes and the wake marker.
--
-- needs    meta
-- gives    note
local function note(...) -- A failed write does not fail the verb. It is counted in `unnoted`.
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then redis.pcall('HINCRBY', meta, 'unnoted', 1) end
end
