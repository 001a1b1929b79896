-- Requeue rejected jobs behind the waiting jobs of the source: they run again.
--
-- This script is the garbage collector that the original's README describes. The original's code moves the jobs to the
-- consumer's processing list instead, which no consumer reads again.
--
-- moves    unacked -> source
-- derived  orizuru:consumers:<worker>:unacked
-- KEYS     source consumers
-- ARGV     each  (member bytes, worker bytes)
-- returns each  moved  requeued
--               gone   it is not among the jobs that this consumer rejected
-- include: keys
local places = {'unacked'}
-- include: key_types(source), rows
local outcomes = {}
for i = 1, #ARGV, 2 do
  local member, unacked = ARGV[i], 'orizuru:consumers:' .. ARGV[i + 1] .. ':unacked'
  outcomes[#outcomes + 1] = 'gone'
  if redis.call('LPOS', unacked, member, 'RANK', -1) then
    outcomes[#outcomes] = 'moved'
    redis.call('LTRIM', unacked, 0, -1) -- removes nothing, but lets the drain continue over maxmemory
    redis.call('LPUSH', source, member)
    redis.call('LREM', unacked, -1, member)
  end
end
return outcomes
