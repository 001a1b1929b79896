-- Check the types of the two streams before the first write: their entries are added last.
--
-- needs    events minutes
for _, key in ipairs({events, minutes}) do redis.call('XLEN', key) end
