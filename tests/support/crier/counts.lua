-- What a queue of the crier holds at one instant.
--
-- KEYS     waiting  list  ids
-- ARGV     now_ms?  int  a test's clock; the server's when empty
-- returns  counted  (now_ms int, waiting int)
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
return {'counted', now_ms, redis.call('LLEN', KEYS[1])}
