-- Dispatch due tasks: make them ready, oldest first; tasks with equal due times are ordered by their bytes.
--
-- `ready` is the number of ready tasks before this batch. `next_ms` is the time until the next due task, -1 if there is
-- none. A task with a negative due time is due.
--
-- moves    delayed -> ready
-- KEYS     delayed ready
-- ARGV     now_ms?  int   a test's clock; the server's when empty
--          limit    int   how many at most, 1 to 1000
-- returns  moved  (moved int, scheduled int, ready int, next_ms int)  dispatched
--          empty  (scheduled int, ready int, next_ms int)  nothing is due
-- include: keys, server_time, args
local before = redis.call('LLEN', ready)
-- include: limit
local function next_ms()
  local due = tonumber(redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2])
  if not due or due >= 1e11 then return -1 end
  return math.max(0, math.ceil(due * 1000 - now_ms))
end
local due = redis.call('ZRANGEBYSCORE', delayed, '-inf', string.format('%.3f', now_ms / 1000), 'LIMIT', 0, limit)
if #due == 0 then return {'empty', redis.call('ZCARD', delayed), before, next_ms()} end

redis.call('ZREMRANGEBYRANK', delayed, 1, 0) -- removes nothing, but lets the drain continue over maxmemory
redis.call('RPUSH', ready, unpack(due))
redis.call('ZREM', delayed, unpack(due))
return {'moved', #due, redis.call('ZCARD', delayed), before, next_ms()}
