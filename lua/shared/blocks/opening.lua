-- The server's time, or a test's, and the guard of the schema version.
-- needs    ARGV[1], `now_ms?`; version  of `meta`
-- gives    clock now_ms
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
if version and version ~= '2' and version ~= '1' then
  return redis.error_reply('ERR this queue has schema version ' .. version .. ', these scripts speak 1 and 2; nothing was changed')
end
