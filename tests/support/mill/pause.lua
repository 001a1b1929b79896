-- Pause every queue.
--
-- writes   paused
-- KEYS     paused  string  there while all queues rest
-- returns  moved  done
redis.call('SET', KEYS[1], 1)
return {'moved'}
