-- What the three sets hold at one instant.
--
-- Items in progress whose lock is gone cannot be counted without looking at all: `expired` counts those that a reaper has
-- noticed, its first hundred looked at again. `deadline_ms` is when the first of them was noticed, -1 without one.
--
-- derived  <id>-lock  behind the prefix: somebody works on the item
-- KEYS     todos        set   items to do
--          in_progress  set   items that somebody works on
--          done         set   items that are done
--          suspects     zset  item in progress by when it was first seen without a lock (ms)
-- ARGV     now_ms?      int   a test's clock; the server's when empty
--          prefix       str   before the names of locks
-- returns  counted  (now_ms int, todos int, in_progress int, done int, expired int, deadline_ms int)
local todos, in_progress, done, suspects = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
for _, at in ipairs({1}) do
  if #ARGV < 2 or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 2 arguments, whole numbers where the header says int; nothing was changed')
  end
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local prefix = ARGV[2]
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
