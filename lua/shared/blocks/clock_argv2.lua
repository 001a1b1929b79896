-- The server's time, or a test's, for scripts whose second argument is `now_ms?`.
--
-- needs    ARGV[2]  now_ms?
-- gives    now_ms
if #ARGV[2] > 13 or string.find(ARGV[2], '%D') then return redis.error_reply('ERR now_ms is a whole number; nothing was changed') end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[2]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
