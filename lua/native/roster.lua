-- List the workers of a queue, each with its worker line: last heartbeat, ttl, order, start, pid, host and job.
--
-- KEYS     workers
-- returns  roster  rows (worker bytes, line bytes)  workers
-- include: keys
local all, rows = redis.call('HGETALL', workers), {}
for i = 1, #all, 2 do rows[#rows + 1] = {all[i], all[i + 1]} end
return {'roster', rows}
