-- What the mill enqueues again and again, as JSON.
--
-- KEYS     schedules  list  a schedule each, as JSON
-- returns  schedules  rows (schedule str)
local rows = {}
for at, each in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do rows[at] = {each} end
return {'schedules', rows}
