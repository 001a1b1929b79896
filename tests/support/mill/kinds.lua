-- How often each kind of job ran in this mill, as JSON, of all queues together.
--
-- KEYS     kinds  list  a kind each, as JSON
-- returns  kinds  rows (kind str)
local rows = {}
for at, each in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do rows[at] = {each} end
return {'kinds', rows}
