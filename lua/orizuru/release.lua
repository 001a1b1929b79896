-- Release jobs that their consumer holds: they are the next ones.
--
-- moves    processing -> source
-- derived  orizuru:consumers:<worker>:processing
-- KEYS     source consumers
-- ARGV     each  (member bytes, worker bytes)
-- returns each  moved  released
--               gone   that consumer does not hold it
-- include: keys
local places = {'processing'}
-- include: key_types(source), rows
local outcomes = {}
for i = #ARGV - 1, 1, -2 do -- The last row is pushed first, so that the first row is the next job.
  local member, processing = ARGV[i], 'orizuru:consumers:' .. ARGV[i + 1] .. ':processing'
  local row = (i + 1) / 2
  outcomes[row] = 'gone'
  if redis.call('LPOS', processing, member) then
    outcomes[row] = 'moved'
    redis.call('LTRIM', processing, 0, -1) -- removes nothing, but lets the drain continue over maxmemory
    redis.call('RPUSH', source, member)
    redis.call('LREM', processing, 1, member)
  end
end
return outcomes
