-- Limit a queue: set how many jobs run at once, or in a time window, over all workers. 0 removes a limit.
--
-- A limit that is not given stays as it is. A limit per time window has two numbers, and applies from the next window on.
--
-- writes   meta marker
-- KEYS     wait paused prioritized active meta pc marker events
-- ARGV     p             str    prefix of all keys of the queue: bull:mail:
--          concurrency?  int    jobs at once
--          max?          int    jobs in a time window
--          duration_ms?  int    length of the window
-- returns  limited  limited
-- include: keys, args
for at = 2, 4 do
  if #ARGV < 4 or #ARGV[at] > 12 or string.find(ARGV[at], '%D') then
    return redis.error_reply('ERR concurrency, max and duration_ms are whole numbers; nothing was changed')
  end
end
-- include: prefix_guard
if not concurrency and not max then
  return redis.error_reply('ERR a limit is given as concurrency, or as max and duration_ms; 0 takes it away; nothing was changed')
end
if (max or 0) > 0 and (duration_ms or 0) == 0 or duration_ms and not max then
  return redis.error_reply('ERR max and duration_ms are given together: so many jobs in so many ms; nothing was changed')
end
-- include: wake_workers, this_queue
redis.call('HDEL', meta, '') -- frees nothing, but lets the script finish over maxmemory
if concurrency == 0 then
  redis.call('HDEL', meta, 'concurrency')
elseif concurrency then
  redis.call('HSET', meta, 'concurrency', string.format('%.0f', concurrency))
end
if max == 0 then
  redis.call('HDEL', meta, 'max', 'duration')
elseif max then
  redis.call('HSET', meta, 'max', string.format('%.0f', max), 'duration', string.format('%.0f', duration_ms))
end
if concurrency then queue.most = concurrency > 0 and concurrency or nil end
if redis.call('LLEN', wait) + redis.call('ZCARD', prioritized) > 0 then wake_workers(queue) end -- workers sleep while the limit is reached
return {'limited'}
