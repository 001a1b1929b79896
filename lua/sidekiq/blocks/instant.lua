-- Convert a time to milliseconds. A number from 10^11 on is in milliseconds (Sidekiq 8), a smaller one in seconds.
--
-- gives    at_ms
local function at_ms(value) -- -1 if the value is not a time
  local at = tonumber(value)
  if not at or at ~= at or at < 0 or at > 9e15 then return -1 end
  return math.floor((at < 1e11 and at * 1000 or at) + 0.5)
end
