-- Decide whether a score is in milliseconds or in seconds.
--
-- needs    queued reserved
--          MS    the lowest score in milliseconds, as text
--          unit  ms, s or auto
-- gives    is_ms
local has_ms = redis.call('ZCOUNT', queued, MS, '(9e15') + redis.call('ZCOUNT', reserved, MS, '(9e15') > 0
local function is_ms(score)
  if unit ~= 'auto' then return unit == 'ms' end
  if score < 1e8 or score > 9e15 then return has_ms end -- such a score shows no unit: the other scores decide
  return score >= 1e11
end
