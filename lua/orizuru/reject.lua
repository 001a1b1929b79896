-- Reject jobs that their consumer holds: move them to its list of jobs that were not acked.
--
-- A job that the consumer does not hold any more stays where it is. The original pushes the job anyway, so that a
-- second call adds a second job.
--
-- moves    processing -> unacked
-- derived  orizuru:consumers:<worker>:processing
--          orizuru:consumers:<worker>:unacked
-- KEYS     consumers
-- ARGV     each  (member bytes, worker bytes)
-- returns each  moved  rejected
--               gone   that consumer does not hold it
-- include: keys
local places = {'processing', 'unacked'}
-- include: rows
local outcomes = {}
for i = 1, #ARGV, 2 do
  local member, prefix = ARGV[i], 'orizuru:consumers:' .. ARGV[i + 1]
  local processing, unacked = prefix .. ':processing', prefix .. ':unacked'
  outcomes[#outcomes + 1] = 'gone'
  if redis.call('LPOS', processing, member) then
    outcomes[#outcomes] = 'moved'
    redis.call('LTRIM', processing, 0, -1) -- removes nothing, but lets the drain continue over maxmemory
    redis.call('LPUSH', unacked, member)
    redis.call('LREM', processing, 1, member)
  end
end
return outcomes
