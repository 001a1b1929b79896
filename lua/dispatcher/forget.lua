-- Forget parked tasks after a migration has stored them elsewhere.
--
-- writes   leaving
-- KEYS     leaving
-- ARGV     each     (member bytes)  as `park` returned them
-- returns each  moved  forgotten
--               gone   it is not parked
-- include: keys, key_types(leaving), batch_size(entries)
local outcomes = {}
for at, member in ipairs(ARGV) do
  outcomes[at] = redis.call('LREM', leaving, 1, member) == 1 and 'moved' or 'gone'
end
return outcomes
