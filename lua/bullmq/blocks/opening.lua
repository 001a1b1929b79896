-- Check and read the time and the prefix of all keys of the queue.
--
-- needs    ARGV[1]  now_ms?
--          ARGV[2]  p
-- gives    now_ms p
if #ARGV[1] > 15 or string.find(ARGV[1], '%D') then return redis.error_reply('ERR now_ms is a whole number; nothing was changed') end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local p = ARGV[2]
