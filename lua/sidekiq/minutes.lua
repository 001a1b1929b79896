-- Read how many runs ended in each of the last six minutes, of all queues together, as Sidekiq 7 and later record them.
--
-- Sidekiq 8 has one hash per minute, `j|YYMMDD|H:MM`; Sidekiq 7 has `j|YYYYMMDD|H:M`. The fields are `Class|p` (runs) and `Class|f`
-- (failed runs); at most 2000 are read per hash. `only`: `queue` is the only queue, so that all runs are its own. `recorded`: a
-- process stores its version, as those of Sidekiq 7 and later do; earlier ones record no runs.
--
-- derived  <prefix>j|<bucket>
--          <prefix><identity>
-- KEYS     queues processes
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          prefix   str  the prefix of all keys: the namespace and a colon, or nothing
--          queue    str  the name of a queue
-- returns  counted  (now_ms int, only bool, recorded bool)  rows (at_ms int, processed int, failed int)
-- include: keys, args(queue), arguments, clock, prefix, clock_of, processes
local is_only = redis.pcall('SCARD', queues) == 1 and redis.call('SISMEMBER', queues, queue) == 1
local rows, is_recorded, now_min = {}, false, math.floor(now_ms / 60000)
each_process(function(_, info) is_recorded = is_recorded or string.find(info or '', '"version"', 1, true) end)
for back = 0, is_only and 5 or -1, 1 do
  local y, m, d, h, min = clock_of(now_min - back)
  local sums = {p = 0, f = 0}
  for _, bucket in ipairs({string.format('j|%02d%02d%02d|%d:%02d', y % 100, m, d, h, min), string.format('j|%04d%02d%02d|%d:%d', y, m, d, h, min)}) do
    local length = redis.pcall('HLEN', prefix .. bucket)
    local fields = type(length) == 'number' and length <= 2000 and redis.call('HGETALL', prefix .. bucket) or {}
    for i = 1, #fields, 2 do
      local column, number = string.match(fields[i], '|([pf])$'), tonumber(fields[i + 1])
      if column and number and number >= 0 and number < 2 ^ 53 then sums[column] = sums[column] + number end
    end
  end
  rows[#rows + 1] = {(now_min - back) * 60000, sums.p, math.min(sums.p, sums.f)}
end
return {'counted', now_ms, is_only and 1 or 0, is_recorded and 1 or 0, rows}
