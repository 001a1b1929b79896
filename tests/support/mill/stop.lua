-- Ask a worker to end after its job.
--
-- writes   orders
-- KEYS     orders  list  what workers were told
-- ARGV     worker  str  which
-- returns  moved  asked
redis.call('RPUSH', KEYS[1], 'stop ' .. ARGV[1])
return {'moved'}
