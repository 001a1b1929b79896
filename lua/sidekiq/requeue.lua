-- Requeue dead jobs: they run again, as with "retry now" of Sidekiq.
--
-- The client builds the new bytes: the retry count is reduced by one, and the time of enqueueing is now. The new bytes
-- enter the queue only if the old ones are still dead. The old ones are found by their bytes, because several jobs can
-- have the same score.
--
-- moves    dead -> queue
-- writes   queues
-- KEYS     dead queue queues
-- ARGV     queue   str   its name
--          each    (member bytes, new? bytes)
-- returns each  moved  requeued
--               raw    no worker can run it
--               gone   it is not dead any more
-- include: keys, columns, key_types(queue queues dead), batch
local outcomes, seen, jobs = {}, {}, {}
for at = 2, #ARGV, columns do
  local member, new = ARGV[at], ARGV[at + 1]
  local is_dead = not seen[member] and redis.call('ZSCORE', dead, member)
  outcomes[#outcomes + 1], seen[member] = not is_dead and 'gone' or new == '' and 'raw' or 'moved', true
  if outcomes[#outcomes] == 'moved' then jobs[#jobs + 1] = {member, new} end
end
if #jobs == 0 then return outcomes end

redis.call('ZREMRANGEBYRANK', dead, 1, 0) -- removes nothing, but lets the drain continue over maxmemory
redis.call('SADD', queues, ARGV[1])
for _, job in ipairs(jobs) do
  redis.call('LPUSH', queue, job[2])
  redis.call('ZREM', dead, job[1])
end
return outcomes
