-- What is wrong in the mill: workers that were asked to stop and hold jobs that a mouse will eat at an instant.
--
-- KEYS     mice  hash  by queue the instant (ms)
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          queue    str  which
-- returns  looked  (looked int) rows (kind str, key str, id bytes, number int, until_ms? int)
local at = redis.call('HGET', KEYS[1], ARGV[2])
return {'looked', 1, at and {{'mouse', KEYS[1], '', 3, at}} or {}}
