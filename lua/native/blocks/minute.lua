-- Store the counters at the beginning of a minute, once per minute and before a counter changes.
--
-- needs    now_ms note meta minutes
--          last_minute  the field `minute` of `meta`
-- include: note
local minute = now_ms - now_ms % 60000
if minute > (tonumber(last_minute) or 0) then
  note('HSET', meta, 'minute', minute)
  local counters = redis.pcall('HGETALL', meta)
  if #counters < 400 then note('XADD', minutes, 'MAXLEN', '~', 1440, minute .. '-0', unpack(counters)) end
end
