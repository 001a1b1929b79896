-- Give deferred jobs another due time, which stands in their bodies.
--
-- writes   deferred
-- derived  <prefix>:job:<id>  a job
-- KEYS     deferred  list  ids of all queues
-- ARGV     prefix  str  of all its keys
--          each (id bytes, member bytes, new bytes, due_ms int)
-- returns each  moved  written
--               gone   another body stands there
local outcomes = {}
for at = 2, #ARGV, 4 do
  local job = ARGV[1] .. ':job:' .. ARGV[at]
  if redis.call('HGET', job, 'body') == ARGV[at + 1] and redis.call('LPOS', KEYS[1], ARGV[at]) then
    redis.call('HSET', job, 'body', ARGV[at + 2], 'due_ms', ARGV[at + 3])
    outcomes[#outcomes + 1] = 'moved'
  else
    outcomes[#outcomes + 1] = 'gone'
  end
end
return outcomes
