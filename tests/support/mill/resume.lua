-- Resume every queue.
--
-- writes   paused
-- KEYS     paused  string  there while all queues rest
-- returns  moved  done
redis.call('DEL', KEYS[1])
return {'moved'}
