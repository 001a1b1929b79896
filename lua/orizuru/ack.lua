-- Ack jobs that their consumer holds: it has finished them.
--
-- moves    processing ->
-- derived  orizuru:consumers:<worker>:processing
-- KEYS     consumers
-- ARGV     each  (member bytes, worker bytes)
-- returns each  moved  acked
--               gone   that consumer does not hold it
-- include: keys
local places = {'processing'}
-- include: rows
local outcomes = {}
for i = 1, #ARGV, 2 do
  local removed = redis.call('LREM', 'orizuru:consumers:' .. ARGV[i + 1] .. ':processing', 1, ARGV[i])
  outcomes[#outcomes + 1] = removed == 1 and 'moved' or 'gone'
end
return outcomes
