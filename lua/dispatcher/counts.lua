-- What a queue holds at one instant.
--
-- `due_ms` is the instant of the next due time, -1 without one. A negative due time is due now; one from 1e11 on, in the
-- year 5138 or milliseconds by mistake, is none.
--
-- KEYS     delayed  zset  task by due (s)
--          ready    list  tasks, first in, first out
-- ARGV     now_ms?  int   a test's clock; the server's when empty
-- returns  counted  (now_ms int, delayed int, ready int, due_ms int, overdue int)
local delayed, ready = KEYS[1], KEYS[2]
for _, at in ipairs({1}) do
  if #ARGV < 1 or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 1 argument, whole numbers where the header says int; nothing was changed')
  end
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local due = tonumber(redis.call('ZRANGEBYSCORE', delayed, '0', '(100000000000', 'WITHSCORES', 'LIMIT', 0, 1)[2])
local due_ms = due and math.floor(due * 1000 + 0.5) or -1
if redis.call('ZCOUNT', delayed, '-inf', '(0') > 0 then due_ms = due and math.min(due_ms, now_ms) or now_ms end
local overdue = redis.call('ZCOUNT', delayed, '-inf', string.format('%.3f', now_ms / 1000))
return {'counted', now_ms, redis.call('ZCARD', delayed), redis.call('LLEN', ready), due_ms, overdue}
