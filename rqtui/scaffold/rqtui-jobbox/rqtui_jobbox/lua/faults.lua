-- Find jobs without a record at the head of the queue, and leases that ended more than a minute ago.
--
-- derived  jobbox:job:<id>
-- KEYS     waiting running
-- ARGV     now_ms?  int  a test's clock; the server's when empty
-- returns  looked  (looked int)  rows (kind str, key str, id bytes, number int, seconds int)
-- include: keys, clock, has_record, add_finding_row
local looked = 0
for _, id in ipairs(redis.call('LRANGE', waiting, 0, 7)) do
  looked = looked + 1
  if not has_record(id) then add_finding_row('ghost', waiting, id, 1, 0) end
end
local before = string.format('%.3f', now_ms / 1000 - 60)
local late = redis.call('ZRANGEBYSCORE', running, '-inf', before, 'WITHSCORES', 'LIMIT', 0, 1)
if late[1] then
  local seconds = math.floor(math.max(0, math.min(1e9, now_ms / 1000 - tonumber(late[2]))))
  add_finding_row('abandoned', running, late[1], redis.call('ZCOUNT', running, '-inf', before), seconds)
end
return {'looked', looked, rows}
