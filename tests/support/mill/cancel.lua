-- Ask the worker to stop a job that runs.
--
-- writes   orders
-- KEYS     started  list  ids
--          orders  list  what workers were told
-- ARGV     each (id bytes, worker str)
-- returns each  moved  asked
--               gone   no such job
local outcomes = {}
for at = 1, #ARGV, 2 do
  redis.call('RPUSH', KEYS[2], 'cancel ' .. ARGV[at] .. ' of ' .. ARGV[at + 1])
  outcomes[#outcomes + 1] = 'moved'
end
return outcomes
