-- Forget parked tasks after a migration has stored them elsewhere.
--
-- writes   leaving
-- KEYS     leaving  list  tasks parked for a migration
-- ARGV     each     (member bytes)  as `park` returned them
-- returns each  moved  forgotten
--               gone   it is not parked
local leaving = KEYS[1]
redis.call('LLEN', leaving)
if #ARGV < 1 or #ARGV > 1000 then return redis.error_reply('ERR a batch has 1 to 1000 entries; nothing was changed') end
local words = {}
for at, member in ipairs(ARGV) do
  words[at] = redis.call('LREM', leaving, 1, member) == 1 and 'moved' or 'gone'
end
return words
