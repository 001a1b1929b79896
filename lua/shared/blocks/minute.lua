-- The counters as this minute began, once per minute and before anything of it is counted.
-- needs    now_ms meta minutes note; last_minute, the field `minute` of `meta`
local minute = now_ms - now_ms % 60000
if minute > (tonumber(last_minute) or 0) then
  note('HSET', meta, 'minute', minute)
  local counters = redis.pcall('HGETALL', meta)
  if #counters < 400 then note('XADD', minutes, 'MAXLEN', '~', 1440, minute .. '-0', unpack(counters)) end
end
