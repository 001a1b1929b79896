-- Quiet workers: ask them to take no more jobs.
--
-- A worker learns of it at its next heartbeat.
--
-- writes   workers
-- KEYS     workers    hash    worker lines by name
--          meta       hash    settings and counters
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          each      (worker str)
-- returns each  asked  asked to go quiet; it learns of it at its next heartbeat
--               gone   no such worker
local workers, meta = KEYS[1], KEYS[2]
local order = 'quiet'
local version = redis.call('HGET', meta, 'version')
redis.call('HLEN', workers)
-- include: opening, order
