-- Quiet workers: ask them to take no more jobs.
--
-- A worker learns of it at its next heartbeat.
--
-- writes   workers
-- KEYS     workers meta
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          each      (worker str)
-- returns each  asked  asked to go quiet; it learns of it at its next heartbeat
--               gone   no such worker
-- include: keys
local order = 'quiet'
local version = redis.call('HGET', meta, 'version')
-- include: key_types(workers), opening, order
