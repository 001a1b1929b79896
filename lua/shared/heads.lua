-- When the first member of each of many sorted sets is due: one call instead of one per queue.
--
-- Only those that are due within `within_ms` are told. A key that is no sorted set counts as due: the script that works
-- on it says whose it is.
--
-- KEYS     each (head zset)  scores are times in ms
-- ARGV     within_ms  int    how far ahead to look, 0 to 3600000
-- returns  looked  rows (number int, in_ms int)  which of the keys, from 1, and in how many ms; 0 or less: it is late
local within_ms = tonumber(ARGV[1])
if not within_ms or within_ms < 0 or within_ms > 3600000 then
  return redis.error_reply('ERR within_ms is 0 to 3600000')
end
local clock = redis.call('TIME')
local now_ms = clock[1] * 1000 + math.floor(clock[2] / 1000)
local found = {}
for first = 1, #KEYS, 10 do -- most are empty: ten are asked for in one question, which costs as much as two of their heads
  local last = math.min(first + 9, #KEYS)
  for number = first, redis.call('EXISTS', unpack(KEYS, first, last)) > 0 and last or 0 do
    local head = redis.pcall('ZRANGE', KEYS[number], '0', '0', 'WITHSCORES')
    local in_ms = head.err and 0 or head[2] and math.max(-86400000, math.ceil(head[2] - now_ms))
    if in_ms and in_ms <= within_ms then found[#found + 1] = {number, in_ms} end
  end
end
return {'looked', found}
