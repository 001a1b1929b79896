-- List the workers of a queue with their last heartbeats: the 1000 latest ones.
--
-- KEYS     workers
-- returns  listed  rows (worker bytes, beat str)
-- include: keys
local rows, found = {}, redis.call('ZRANGE', workers, -1000, -1, 'WITHSCORES')
for at = 1, #found, 2 do rows[#rows + 1] = {found[at], found[at + 1]} end
return {'listed', rows}
