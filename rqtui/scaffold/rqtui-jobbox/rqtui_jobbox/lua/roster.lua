-- List the workers of a queue with their last heartbeats, at most about 1000.
--
-- KEYS     workers
-- returns  listed  rows (worker bytes, beat str)
-- include: keys
local rows, values = {}, redis.call('HSCAN', workers, 0, 'COUNT', 1000)[2]
for at = 1, #values, 2 do rows[#rows + 1] = {values[at], values[at + 1]} end
table.sort(rows, function(a, b) return a[1] < b[1] end)
return {'listed', rows}
