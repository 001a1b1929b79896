-- Return which results are stored in this database, and whether no other database has keys.
--
-- A result is published on a channel with the name of its key, and Pub/Sub ignores database numbers. Only the key proves that the
-- app that published a result stores its results in this database. If no other database has a key, everything that is published
-- belongs to this one.
--
-- KEYS     each (result any)  the result of a job, `celery-task-meta-<id>`
-- returns  looked  (is_alone bool)  rows (is_kept bool)  a row per result, in the order of the keys
local rows = {}
-- include: is_only_database
for at, result in ipairs(KEYS) do rows[at] = {redis.call('EXISTS', result)} end
return {'looked', is_only_database() and 1 or 0, rows}
