-- Settle what a migration has taken aside, after it was put elsewhere.
--
-- writes   leaving
-- KEYS     leaving  list  what a migration has taken and not yet settled
-- ARGV     each     (member bytes)  as `park` handed them out
-- returns each  moved  settled
--               gone   it does not stand aside
local leaving = KEYS[1]
redis.call('LLEN', leaving)
if #ARGV < 1 or #ARGV > 1000 then return redis.error_reply('ERR a batch has 1 to 1000 entries; nothing was changed') end
local words = {}
for at, member in ipairs(ARGV) do
  words[at] = redis.call('LREM', leaving, 1, member) == 1 and 'moved' or 'gone'
end
return words
