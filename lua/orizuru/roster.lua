-- List the consumers that ever sent a heartbeat: the time of the last one, and the number of jobs that each holds.
--
-- At most about 1000 of `total` consumers are listed.
--
-- derived  orizuru:consumers:<worker>:processing
--          orizuru:consumers:<worker>:unacked
--          orizuru:consumers:<worker>:heartbeat
-- KEYS     consumers heartbeats
-- returns  listed  (total int)  rows (worker bytes, beat_ms int, left_ms int, processing int, unacked int, registered bool)
--                  `left_ms`: the time until the heartbeat key expires, -2 if it is missing
-- include: keys, key_types(consumers)
local function length(key)
  local reply = redis.pcall('LLEN', key)
  return type(reply) == 'number' and reply or 0
end
local rows, beats = {}, redis.call('HSCAN', heartbeats, 0, 'COUNT', 1000)[2]
for i = 1, #beats, 2 do
  local name, beat = beats[i], tonumber(string.match(beats[i + 1], '^%d+$') or '')
  local prefix = 'orizuru:consumers:' .. name
  if beat then
    rows[#rows + 1] = {name, beat, redis.call('PTTL', prefix .. ':heartbeat'), length(prefix .. ':processing'),
      length(prefix .. ':unacked'), redis.call('SISMEMBER', consumers, name)}
  end
end
table.sort(rows, function(a, b) return a[1] < b[1] end)
return {'listed', redis.call('HLEN', heartbeats), rows}
