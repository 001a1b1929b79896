-- Walk over the keys of the database, a bounded step per call, and name those that fit one of the patterns.
--
-- A step looks at about `limit` keys and sends back only what fits, whatever the number of patterns: discovery of
-- every system costs one walk.
--
-- ARGV     cursor   str    0 begins a walk
--          limit    int    keys to look at, about
--          each (pattern str)  a Lua pattern, `^rqtui:{.*}:meta$`
-- returns  walked  (cursor str)  rows (number int, key bytes)  the cursor of the next step, 0 at the end; each key with the number of its pattern
local cursor, limit = ARGV[1], tonumber(ARGV[2])
if string.find(cursor, '%D') or cursor == '' or not limit or limit < 1 or limit > 10000 then
  return redis.error_reply('ERR cursor is a whole number, limit is 1 to 10000')
end
local found = {}
local reply = redis.call('SCAN', cursor, 'COUNT', limit)
for _, key in ipairs(reply[2]) do
  for number = 3, #ARGV do
    if string.find(key, ARGV[number]) then found[#found + 1] = {number - 2, key} end
  end
end
return {'walked', reply[1], found}
