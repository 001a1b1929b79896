-- Walk over the keys of the database, a bounded step per call, and name those that fit one of the patterns.
--
-- A step looks at about `limit` keys and sends back only what fits, whatever the number of patterns: discovery of
-- every system costs one walk. Of the last `counted` patterns only the number of keys that fit is sent.
--
-- ARGV     cursor    str    0 begins a walk
--          limit     int    keys to look at, about
--          counted?  int    how many patterns, the last ones, are only counted
--          each (pattern str)  a Lua pattern, `^rqtui:{.*}:meta$`
-- returns  walked  (cursor str, counts str)  rows (number int, key bytes)  the cursor of the next step, 0 at the end; the counts, as `12 0 3`; each key with the number of its pattern
local cursor, limit, counted = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]) or 0
if string.find(cursor, '%D') or cursor == '' or not limit or limit < 1 or limit > 10000 then
  return redis.error_reply('ERR cursor is a whole number, limit is 1 to 10000')
end
local found, counts, first, named = {}, {}, 4, #ARGV - counted
for number = named + 1, #ARGV do counts[number - named] = 0 end
local reply = redis.call('SCAN', cursor, 'COUNT', limit)
for _, key in ipairs(reply[2]) do
  for number = first, named do
    if string.find(key, ARGV[number]) then found[#found + 1] = {number - first + 1, key} end
  end
  for number = named + 1, #ARGV do
    if string.find(key, ARGV[number]) then counts[number - named] = counts[number - named] + 1 end
  end
end
return {'walked', reply[1], table.concat(counts, ' '), found}
