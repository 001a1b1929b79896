-- The server's time, or a test's, for scripts that read and whose first argument is `now_ms?`.
--
-- needs    ARGV[1]  now_ms?
-- gives    now_ms
if #ARGV < 1 or #ARGV[1] > 15 or string.find(ARGV[1], '%D') then
  return redis.error_reply('ERR now_ms is a whole number; nothing was changed')
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
