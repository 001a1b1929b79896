-- The time of the server, or of a test's clock.
--
-- needs    ARGV[1]  now_ms?
-- gives    clock  the reply of TIME: seconds and microseconds
--          now_ms
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
