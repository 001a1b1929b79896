-- Count the items of the three sets.
--
-- Items in progress without a lock cannot be counted without reading all items. `expired` counts those that a reaper
-- found; the first 100 of them are checked again. `deadline_ms` is when the first of them was found, -1 for none.
--
-- derived  <id>-lock  behind the prefix: a worker holds the item
-- KEYS     todos in_progress done suspects
-- ARGV     now_ms?      int   a test's clock; the server's when empty
--          prefix       str   in front of the names of locks
-- returns  counted  (now_ms int, todos int, in_progress int, done int, expired int, deadline_ms int)
-- include: keys, integers, server_time, args
local expired, deadline_ms = math.max(0, redis.call('ZCARD', suspects) - 100), -1
local first = redis.call('ZRANGE', suspects, 0, 99, 'WITHSCORES')
for at = 1, #first, 2 do
  local item = first[at]
  if redis.call('SISMEMBER', in_progress, item) == 1 and redis.call('EXISTS', prefix .. item .. '-lock') == 0 then
    expired = expired + 1
    if deadline_ms < 0 then deadline_ms = math.floor(tonumber(first[at + 1])) end
  end
end
return {
  'counted', now_ms, redis.call('SCARD', todos), redis.call('SCARD', in_progress), redis.call('SCARD', done), expired, deadline_ms,
}
