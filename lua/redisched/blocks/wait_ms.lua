-- Compute the time until the first score of a range.
--
-- needs    now_ms
--          MS  the lowest score in milliseconds, as text
-- gives    wait_ms
local function wait_ms(key, from_s, from_ms) -- `from_s` and `from_ms` are the lowest scores; -1 if there is none
  local soonest
  for _, range in ipairs({{from_s, '(' .. MS, 1000}, {from_ms, '(9e15', 1}}) do
    local score = redis.call('ZRANGEBYSCORE', key, range[1], range[2], 'WITHSCORES', 'LIMIT', 0, 1)[2]
    local wait = score and math.max(0, math.ceil(tonumber(score) * range[3] - now_ms))
    if wait then soonest = math.min(soonest or wait, wait) end
  end
  return soonest or -1
end
