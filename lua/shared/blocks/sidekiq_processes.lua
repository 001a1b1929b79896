-- Sidekiq: the processes, at most 300 of them; it answers whether these are all.
-- needs    prefix now_ms processes at_ms
-- gives    each_process
local function each_process(look) -- look(identity, info or nil, age of the beat in ms or -1)
  local found = redis.pcall('SSCAN', processes, 0, 'COUNT', 300)
  for at = 1, found.err and 0 or math.min(300, #found[2]) do
    local identity = found[2][at]
    local told = redis.pcall('HMGET', prefix .. identity, 'info', 'beat')
    local beat_ms = at_ms(told[2])
    look(identity, told[1] or nil, beat_ms >= 0 and math.max(0, now_ms - beat_ms) or -1)
  end
  return found.err ~= nil or (tostring(found[1]) == '0' and #found[2] <= 300)
end
