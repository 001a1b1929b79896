-- Read the time and the prefix of all keys, the first two arguments.
--
-- needs    ARGV[1]  now_ms?
--          ARGV[2]  prefix
-- gives    now_ms prefix
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local prefix = ARGV[2]
