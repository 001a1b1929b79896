-- What a queue holds at one instant.
--
-- Up to 1000 entries are all looked at. Of a longer list the 250 at each end are, where those that were handed out gather, and
-- five blocks of 100 that stand for all between; then the three numbers are estimates, and `exact` is false. Their sum is exact.
-- `deadline_ms` is the first end of a lease that was seen, -1 without one; `marks` is how many done marks there are.
--
-- KEYS     entries (ready in_progress expired)  list  id, or id|unix seconds once handed out
--          done       set   ids of finished jobs whose entry still stands
-- ARGV     now_ms?    int   a test's clock; the server's when empty
--          timeout_s  str   seconds after which an entry that was handed out is late
-- returns  counted  (now_ms int, ready int, in_progress int, expired int, exact bool, deadline_ms int, marks int)
local entries, done = KEYS[1], KEYS[2]
for _, at in ipairs({1, 2}) do
  if #ARGV < 2 or not tonumber(ARGV[2]) or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 2 arguments, whole numbers where the header says int; nothing was changed')
  end
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local timeout_s = tonumber(ARGV[2])
local length, first = redis.call('LLEN', entries), nil
local sums = {ready = 0, in_progress = 0, expired = 0}
local function look(from, to, weight)
  for _, entry in ipairs(redis.call('LRANGE', entries, from, to)) do
    local bar = string.find(entry, '|', 1, true)
    local time = bar and bar > 1 and string.match(entry, '^%d+$', bar + 1)
    local place = 'ready'
    if time and #time < 12 then
      time = tonumber(time)
      place = math.floor(now_ms / 1000) - time > timeout_s and 'expired' or 'in_progress'
      if not first or time < first then first = time end
    end
    sums[place] = sums[place] + weight
  end
end
if length <= 1000 then
  look(0, -1, 1)
else
  look(0, 249, 1)
  look(-250, -1, 1)
  for block = 0, 4 do
    local from = 250 + math.floor((length - 600) * block / 4)
    look(from, from + 99, (length - 500) / 500)
  end
end
local in_progress, expired = math.floor(sums.in_progress + 0.5), math.floor(sums.expired + 0.5)
return {
  'counted', now_ms, length - in_progress - expired, in_progress, expired, length <= 1000,
  first and (first + timeout_s + 1) * 1000 or -1, redis.call('SCARD', done),
}
