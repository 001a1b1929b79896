-- Visit at most 300 processes. The result is whether these are all.
--
-- needs    processes prefix at_ms now_ms
-- gives    each_process
-- include: instant
local function each_process(visit) -- visit(identity, info or nil, age of the last heartbeat in ms or -1)
  local page = redis.pcall('SSCAN', processes, 0, 'COUNT', 300)
  for at = 1, page.err and 0 or math.min(300, #page[2]) do
    local identity = page[2][at]
    local fields = redis.pcall('HMGET', prefix .. identity, 'info', 'beat')
    local beat_ms = at_ms(fields[2])
    visit(identity, fields[1] or nil, beat_ms >= 0 and math.max(0, now_ms - beat_ms) or -1)
  end
  return page.err ~= nil or (tostring(page[1]) == '0' and #page[2] <= 300)
end
