-- Count the tasks of a queue.
--
-- `due_ms` is the next due time, -1 if there is none. A task with a negative due time is due now. A due time from 1e11
-- on is after the year 5138 or in milliseconds by mistake, and does not count.
--
-- KEYS     delayed ready
-- ARGV     now_ms?  int   a test's clock; the server's when empty
-- returns  counted  (now_ms int, delayed int, ready int, due_ms int, overdue int)
-- include: keys, arguments, server_time
local due = tonumber(redis.call('ZRANGEBYSCORE', delayed, '0', '(100000000000', 'WITHSCORES', 'LIMIT', 0, 1)[2])
local due_ms = due and math.floor(due * 1000 + 0.5) or -1
if redis.call('ZCOUNT', delayed, '-inf', '(0') > 0 then due_ms = due and math.min(due_ms, now_ms) or now_ms end
local overdue = redis.call('ZCOUNT', delayed, '-inf', string.format('%.3f', now_ms / 1000))
return {'counted', now_ms, redis.call('ZCARD', delayed), redis.call('LLEN', ready), due_ms, overdue}
