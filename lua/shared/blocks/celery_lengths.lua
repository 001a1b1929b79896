-- Celery: how long the lists of a queue are, before anything was pushed.
-- needs    lists
-- gives    lengths
local lengths = {}
for i, list in ipairs(lists) do lengths[i] = redis.call('LLEN', list[1]) end
