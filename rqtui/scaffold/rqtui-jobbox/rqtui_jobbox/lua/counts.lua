-- Count the jobs of a queue, the due jobs that no worker moved, the leases that are over, and the live workers.
--
-- KEYS     delayed waiting running failed workers
-- ARGV     now_ms?  int  a test's clock; the server's when empty
-- returns  counted  (now_ms int, delayed int, waiting int, running int, failed int, due_ms int, deadline_ms int,
--                    overdue int, expired int, workers int)
-- include: keys, clock
local function first_ms(key)
  local score = tonumber(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2])
  return score and math.floor(math.max(0, math.min(9e12, score)) * 1000) or -1
end
local now, beat = string.format('%.3f', now_ms / 1000), string.format('%.3f', now_ms / 1000 - 15)
return {
  'counted', now_ms, redis.call('ZCARD', delayed), redis.call('LLEN', waiting), redis.call('ZCARD', running),
  redis.call('ZCARD', failed), first_ms(delayed), first_ms(running), redis.call('ZCOUNT', delayed, '-inf', now),
  redis.call('ZCOUNT', running, '-inf', now), redis.call('ZCOUNT', workers, beat, '+inf'),
}
