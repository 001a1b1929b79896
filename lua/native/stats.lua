-- Return the settings, the counters and the history per minute of a queue.
--
-- `fields` of a row is `name value name value …`; counters are cumulative. The first row has minute 0 and the current
-- counters. Each further row has the counters at the beginning of a minute, newest first.
--
-- KEYS     meta minutes
-- ARGV     limit     int     how many minutes at most, 0 to 1440
-- returns  stats  rows (minute_ms int, fields str)  counters
-- include: keys, args
if not limit or limit % 1 ~= 0 or limit < 0 or limit > 1440 then return redis.error_reply('ERR limit is 0 to 1440') end
local rows = {{0, table.concat(redis.call('HGETALL', meta), ' ')}}
if limit == 0 then return {'stats', rows} end
for _, entry in ipairs(redis.call('XREVRANGE', minutes, '+', '-', 'COUNT', limit)) do
  rows[#rows + 1] = {tonumber(string.match(entry[1], '^%d+')), table.concat(entry[2], ' ')}
end
return {'stats', rows}
