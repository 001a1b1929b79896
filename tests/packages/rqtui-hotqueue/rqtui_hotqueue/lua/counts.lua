-- How many wait.
--
-- KEYS     waiting
-- ARGV     now_ms?  int  a test's clock; the server's when empty
-- returns  counted  (now_ms int, waiting int)
-- include: keys, clock
return {'counted', now_ms, redis.call('LLEN', waiting)}
