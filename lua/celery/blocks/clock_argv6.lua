-- The time of the server, or of a test, for scripts with `now_ms?` as the sixth argument.
--
-- needs    ARGV[6]  now_ms?
-- gives    now_ms
if #ARGV < 6 or #ARGV[6] > 15 or string.find(ARGV[6], '%D') then
  return redis.error_reply('ERR now_ms is a whole number; nothing was changed')
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[6]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
