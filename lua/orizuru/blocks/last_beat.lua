-- Read the last heartbeat of a consumer, and when the consumer counts as dead. Both are -1 if they are unknown.
--
-- needs    heartbeats now_ms silent_ms
-- gives    last_beat
local function last_beat(name)
  local left_ms = redis.call('PTTL', 'orizuru:consumers:' .. name .. ':heartbeat')
  local beat = tonumber(string.match(redis.call('HGET', heartbeats, name) or '', '^%d+$') or '')
  return beat or -1, beat and left_ms ~= -1 and math.max(left_ms >= 0 and now_ms + left_ms or 0, beat + silent_ms) or -1
end
