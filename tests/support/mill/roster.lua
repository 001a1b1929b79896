-- The workers of the mill, as JSON.
--
-- KEYS     workers  set  names
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          prefix   str  of all its keys
-- returns  roster  (now_ms int) rows (worker str)
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local rows = {}
local found = redis.call('SMEMBERS', KEYS[1])
table.sort(found)
for at, worker in ipairs(found) do rows[at] = {worker} end
return {'roster', now_ms, rows}
