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
-- include: keys, clock, prefix, clock_of
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
