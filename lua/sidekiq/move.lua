-- Move waiting or dead jobs to the same place of another queue.
--
-- The client builds the new bytes, which name the other queue. They are written only if the old ones are still there. A
-- job of `schedule`, `retry` or `dead` keeps its score. A job of the queue goes behind the jobs that wait in the other
-- one. An entry is searched for near both ends of the queue.
--
-- moves    schedule retry queue dead ->
-- writes   queues to_queue
-- KEYS     schedule retry queue dead queues
--          to_queue  list  jobs of the other queue, the next one last
-- ARGV     queue     str   its name
--          to_queue  str   the name of the other queue
--          each      (member bytes, new? bytes, place str)
-- returns each  moved        (place str)  moved to the other queue
--               exists       a job with the new bytes is in this place already: delete this one
--               raw          its bytes are no job, so they cannot name the other queue
--               later        the queue is too long to search for so many at once
--               wrong_place  (place str)  it is neither waiting nor dead
--               gone         it is not there any more
-- include: keys, columns, key_types(schedule retry queue dead queues to_queue), batch
if to_queue == queue or ARGV[2] == '' or string.sub(to_queue, -#ARGV[2] - 6) ~= 'queue:' .. ARGV[2] then
  return redis.error_reply('ERR to_queue is the name of another queue, and its list is queue:NAME; nothing was changed')
end
-- include: take_out
local zsets = {schedule = schedule, retry = retry, dead = dead}
local outcomes, seen, jobs, spots = {}, {}, {}, {}
for at = 3, #ARGV, columns do
  local member, new, place = unpack(ARGV, at, at + 2)
  local key = zsets[place]
  local score, spot, is_unsure
  if place == 'queue' then spot, is_unsure = next_spot(member) end
  if key and not seen[place .. member] then score = redis.call('ZSCORE', key, member) end
  if not key and place ~= 'queue' then
    outcomes[#outcomes + 1] = {'wrong_place', place}
  elseif not score and not spot then
    outcomes[#outcomes + 1] = is_unsure and 'later' or 'gone'
  elseif new == '' then
    outcomes[#outcomes + 1] = 'raw'
  elseif key and (seen[place .. new] or redis.call('ZSCORE', key, new)) then
    outcomes[#outcomes + 1] = 'exists'
  else
    outcomes[#outcomes + 1] = {'moved', place}
    if key then
      seen[place .. member], seen[place .. new] = true, true
      jobs[#jobs + 1] = {key, score, new, member}
    else
      spots[#spots + 1] = {spot, member, new}
    end
  end
end
if #jobs + #spots == 0 then return outcomes end

redis.call('LTRIM', queue, 0, -1) -- removes nothing, but lets the drain continue over maxmemory
redis.call('SADD', queues, ARGV[2])
for _, job in ipairs(jobs) do
  redis.call('ZADD', unpack(job, 1, 3))
  redis.call('ZREM', job[1], job[4])
end
table.sort(spots, function(a, b) return a[1] > b[1] end) -- The next job is the last of the list, so it is pushed first.
for _, spot in ipairs(spots) do redis.call('LPUSH', to_queue, spot[3]) end
take_out(spots)
return outcomes
