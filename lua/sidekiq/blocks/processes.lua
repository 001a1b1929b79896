-- Visit at most 300 processes. The result is whether these are all.
--
-- needs    processes prefix heartbeat_age_ms
-- gives    each_process
-- include: heartbeat
local function each_process(visit) -- visit(identity, info or nil, age of the last heartbeat in ms or -1, when it was by the process's clock)
  local page = redis.pcall('SSCAN', processes, 0, 'COUNT', 300)
  for at = 1, page.err and 0 or math.min(300, #page[2]) do
    local identity = page[2][at]
    local fields = redis.pcall('HMGET', prefix .. identity, 'info', 'beat')
    visit(identity, fields[1] or nil, fields.err and -1 or heartbeat_age_ms(identity, fields[2]), fields[2])
  end
  return page.err ~= nil or (tostring(page[1]) == '0' and #page[2] <= 300)
end
