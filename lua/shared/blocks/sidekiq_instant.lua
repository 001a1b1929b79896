-- Sidekiq: an instant in ms; from 10^11 on a number is ms (Sidekiq 8), below it is seconds.
-- gives    at_ms
local function at_ms(value) -- -1 for what is no instant
  local at = tonumber(value)
  if not at or at ~= at or at < 0 or at > 9e15 then return -1 end
  return math.floor((at < 1e11 and at * 1000 or at) + 0.5)
end
