-- List up to 1000 consumers: those that the caller names, the registered ones, and those with a heartbeat.
--
-- needs    consumers heartbeats
--          asked_from  the index in ARGV of the first name
-- gives    names
--          beats  the entries of `heartbeats`: name, last heartbeat, name, …
local names, seen_names = {}, {}
local function add(name)
  if not seen_names[name] and #names < 1000 then names[#names + 1], seen_names[name] = name, true end
end
for i = asked_from, #ARGV do add(ARGV[i]) end
for _, name in ipairs(redis.call('SSCAN', consumers, 0, 'COUNT', 1000)[2]) do add(name) end
local beats = redis.call('HSCAN', heartbeats, 0, 'COUNT', 1000)[2]
for i = 1, #beats, 2 do add(beats[i]) end
