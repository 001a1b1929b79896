-- Delete jobs that wait.
--
-- moves    waiting ->
-- KEYS     waiting  list  pickles, the next one first
-- ARGV     each  (member bytes)
-- returns each  moved  deleted
--               gone   it does not wait any more
-- include: batch
local words = {}
for at, member in ipairs(ARGV) do
  words[at] = redis.call('LREM', KEYS[1], 1, member) == 1 and 'moved' or 'gone'
end
return words
