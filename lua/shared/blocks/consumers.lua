-- orizuru: the consumers that are known, up to a thousand, in order: those asked for, the registered, those with a beat.
-- needs    consumers heartbeats; asked_from  the position in ARGV of the first name that was asked for
-- gives    names
local names, seen = {}, {}
local function add(name)
  if not seen[name] and #names < 1000 then names[#names + 1], seen[name] = name, true end
end
for i = asked_from, #ARGV do add(ARGV[i]) end
for _, name in ipairs(redis.call('SSCAN', consumers, 0, 'COUNT', 1000)[2]) do add(name) end
local beats = redis.call('HSCAN', heartbeats, 0, 'COUNT', 1000)[2]
for i = 1, #beats, 2 do add(beats[i]) end
table.sort(names)
