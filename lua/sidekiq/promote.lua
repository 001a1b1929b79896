-- Promote scheduled jobs and retries: enqueue them now, as Sidekiq's poller would do when they are due.
--
-- The client builds the new bytes: the retry count of a retry is reduced by one, and the time of enqueueing is now. The
-- new bytes enter the queue only if the old ones are still in the place.
--
-- moves    schedule retry -> queue
-- writes   queues
-- KEYS     schedule retry queue queues
-- ARGV     queue     str   its name
--          place?    str   only there; in either when empty
--          each      (member bytes, new? bytes)
-- returns each  moved        promoted
--               raw          no worker can run it: kill or delete it, otherwise Sidekiq loses it when it is due
--               wrong_place  (place str)  it is neither scheduled nor a retry
--               gone         it is not there any more
-- include: keys, args(place), columns, key_types(queue queues schedule retry), known_place, batch
local keys = {schedule = {schedule}, retry = {retry}, [''] = {schedule, retry}}
local outcomes, seen, jobs = {}, {}, {}
for at = 3, #ARGV, columns do
  local member, new, source = ARGV[at], ARGV[at + 1], nil
  for _, key in ipairs(keys[place] or {}) do
    if not seen[member] and not source and redis.call('ZSCORE', key, member) then source = key end
  end
  outcomes[#outcomes + 1] = not keys[place] and {'wrong_place', place} or not source and 'gone' or new == '' and 'raw' or 'moved'
  seen[member] = true
  if outcomes[#outcomes] == 'moved' then jobs[#jobs + 1] = {source, member, new} end
end
if #jobs == 0 then return outcomes end

redis.call('ZREMRANGEBYRANK', schedule, 1, 0) -- removes nothing, but lets the drain continue over maxmemory
redis.call('SADD', queues, ARGV[1])
for _, job in ipairs(jobs) do
  redis.call('LPUSH', queue, job[3])
  redis.call('ZREM', job[1], job[2])
end
return outcomes
