-- Read the numbers that Sidekiq 7 and later record per job class, for all queues, in about the last hour.
--
-- Sidekiq 8 has one hash per ten minutes, `j|YYMMDD|H:m` (m: the first digit of the minute); six hashes are read.
-- Sidekiq 7 has one hash per minute, `j|YYYYMMDD|H:M`; sixty hashes are read. The fields are `Class|p` (runs),
-- `Class|f` (failed runs) and `Class|ms` (the total duration of the other runs). `over_ms` is the length of the time
-- that was read. At most 5000 fields are read.
--
-- derived  <prefix>j|<bucket>
-- KEYS     stat_processed
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          prefix   str  the prefix of all keys: the namespace and a colon, or nothing
-- returns  counted  (now_ms int, over_ms int)  rows (kind bytes, processed int, failed int, ms int)
-- include: keys, clock, prefix
if redis.call('EXISTS', stat_processed) == 0 then return {'counted', now_ms, 0, {}} end
local budget, by_kind, rows = 5000, {}, {}
local columns = {p = 2, f = 3, ms = 4}
local function add(key)
  local length = redis.pcall('HLEN', key)
  if type(length) ~= 'number' or length == 0 or length > budget then return end
  budget = budget - length
  local fields = redis.call('HGETALL', key)
  for i = 1, #fields, 2 do
    local kind, column = string.match(fields[i], '^(.+)|(%l+)$')
    local at, number = columns[column or ''], tonumber(fields[i + 1])
    if at and number and number >= 0 and number < 2 ^ 53 then
      if not by_kind[kind] then
        by_kind[kind] = {kind, 0, 0, 0}
        rows[#rows + 1] = by_kind[kind]
      end
      by_kind[kind][at] = by_kind[kind][at] + number
    end
  end
end
local function clock_of(minutes) -- Convert minutes since 1970 to year, month, day, hour and minute.
  local days = math.floor(minutes / 1440) + 719468
  local era = math.floor(days / 146097)
  local doe = days - era * 146097
  local yoe = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524) - math.floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + math.floor(yoe / 4) - math.floor(yoe / 100))
  local mp = math.floor((5 * doy + 2) / 153)
  local month = mp < 10 and mp + 3 or mp - 9
  local of_day = minutes % 1440
  return yoe + era * 400 + (month <= 2 and 1 or 0), month, doy - math.floor((153 * mp + 2) / 5) + 1, math.floor(of_day / 60), of_day % 60
end
local now_min = math.floor(now_ms / 60000)
for back = 0, 5 do
  local y, m, d, h, min = clock_of(now_min - 10 * back)
  add(prefix .. string.format('j|%02d%02d%02d|%d:%d', y % 100, m, d, h, math.floor(min / 10)))
end
if #rows > 0 then return {'counted', now_ms, 3000000 + now_ms % 600000, rows} end
for back = 0, 59 do
  local y, m, d, h, min = clock_of(now_min - back)
  add(prefix .. string.format('j|%04d%02d%02d|%d:%d', y, m, d, h, min))
end
return {'counted', now_ms, 3540000 + now_ms % 60000, rows}
