-- Count the jobs of a queue.
--
-- Up to 1000 entries are all read. In a longer list, the 250 entries at each end are read, because most leased jobs are
-- there, and five blocks of 100 as a sample of the others. Then the three numbers are estimates, and `exact` is false,
-- but their sum is exact. `deadline_ms` is the first deadline of a lease that was read, -1 if there is none; `marks` is
-- the number of done marks.
--
-- KEYS     entries done
-- ARGV     now_ms?    int   a test's clock; the server's when empty
--          timeout_s  str   seconds after which a lease expires
-- returns  counted  (now_ms int, ready int, in_progress int, expired int, exact bool, deadline_ms int, marks int)
-- include: keys, integers(now_ms timeout_s), server_time, time_of
local timeout_s = tonumber(ARGV[2])
local length, first = redis.call('LLEN', entries), nil
local sums = {ready = 0, in_progress = 0, expired = 0}
local function count(from, to, weight)
  for _, entry in ipairs(redis.call('LRANGE', entries, from, to)) do
    local time, place = time_of(entry), 'ready'
    if time then
      place = math.floor(now_ms / 1000) - time > timeout_s and 'expired' or 'in_progress'
      first = math.min(first or time, time)
    end
    sums[place] = sums[place] + weight
  end
end
if length <= 1000 then
  count(0, -1, 1)
else
  count(0, 249, 1)
  count(-250, -1, 1)
  for block = 0, 4 do
    local from = 250 + math.floor((length - 600) * block / 4)
    count(from, from + 99, (length - 500) / 500)
  end
end
local in_progress, expired = math.floor(sums.in_progress + 0.5), math.floor(sums.expired + 0.5)
return {
  'counted', now_ms, length - in_progress - expired, in_progress, expired, length <= 1000,
  first and (first + timeout_s + 1) * 1000 or -1, redis.call('SCARD', done),
}
