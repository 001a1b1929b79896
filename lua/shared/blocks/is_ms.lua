-- redisched: whether a score is in milliseconds or in seconds.
-- needs    queued reserved unit MS
-- gives    is_ms
local has_ms = redis.call('ZCOUNT', queued, MS, '(9e15') + redis.call('ZCOUNT', reserved, MS, '(9e15') > 0
local function is_ms(score) -- a score below 10^8, or beyond all time, tells no unit: then that of the others
  if unit ~= 'auto' then return unit == 'ms' end
  if score < 1e8 or score > 9e15 then return has_ms end
  return score >= 1e11
end
