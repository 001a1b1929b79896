-- How many wait.
--
-- KEYS     waiting  list  pickles, the next one first
-- ARGV     now_ms?  int  a test's clock; the server's when empty
-- returns  counted  (now_ms int, waiting int)
-- include: clock
return {'counted', now_ms, redis.call('LLEN', KEYS[1])}
