-- Delete jobs that wait.
--
-- moves    waiting ->
-- KEYS     waiting  list  pickles, the next one first
-- ARGV     each  (member bytes)
-- returns each  moved  deleted
--               gone   it does not wait any more
redis.call('LLEN', KEYS[1])
if #ARGV < 1 or #ARGV > 1000 then return redis.error_reply('ERR a batch has 1 to 1000 rows; nothing was changed') end
local words = {}
for at, member in ipairs(ARGV) do
  words[at] = redis.call('LREM', KEYS[1], 1, member) == 1 and 'moved' or 'gone'
end
return words
