-- Delete jobs that wait.
--
-- moves    waiting ->
-- KEYS     waiting
-- ARGV     each  (member bytes)
-- returns each  moved  deleted
--               gone   it does not wait any more
-- include: keys, key_types, batch_size(jobs)
local outcomes = {}
for at, member in ipairs(ARGV) do
  outcomes[at] = redis.call('LREM', waiting, 1, member) == 1 and 'moved' or 'gone'
end
return outcomes
