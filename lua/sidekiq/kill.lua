-- Kill waiting jobs: move them to dead with unchanged bytes, from where they can be requeued.
--
-- As in Sidekiq, dead jobs older than 180 days are deleted, and so are the oldest ones beyond 9 999. An entry is
-- searched for near both ends of the queue.
--
-- moves    schedule retry queue -> dead
-- forgets  dead
-- KEYS     schedule retry queue dead
-- ARGV     queue     str   its name
--          now_ms?   int   a test's clock; the server's when empty
--          place?    str   only in this place; anywhere when empty
--          each      (member bytes)
-- returns each  moved        killed
--               exists       a job with the same bytes is dead already: delete this one
--               later        the queue is too long to search for so many at once
--               wrong_place  (place str)  it is not waiting
--               gone         it is not there any more
-- include: keys, args(place), columns, key_types(schedule retry dead), known_place, batch, clock_argv2, take_out
local zsets = {{'schedule', schedule}, {'retry', retry}}
local is_waiting = ({[''] = 1, schedule = 1, retry = 1, queue = 1})[place]
local outcomes, seen, jobs, spots = {}, {}, {}, {}
for at = 4, #ARGV do
  local member, key = ARGV[at], nil
  for _, zset in ipairs(zsets) do
    if not key and (place == '' or place == zset[1]) and redis.call('ZSCORE', zset[2], member) then key = zset[2] end
  end
  local spot, is_unsure
  if not key and (place == '' or place == 'queue') then spot, is_unsure = next_spot(member) end
  if not is_waiting then
    outcomes[#outcomes + 1] = {'wrong_place', place}
  elseif not key and not spot then
    outcomes[#outcomes + 1] = is_unsure and 'later' or 'gone'
  elseif seen[member] or redis.call('ZSCORE', dead, member) then
    outcomes[#outcomes + 1] = 'exists'
  else
    outcomes[#outcomes + 1], seen[member] = 'moved', true
    jobs[#jobs + 1], spots[#spots + 1] = {member, key}, spot and {spot, member} or nil
  end
end
if #jobs == 0 then return outcomes end

redis.call('ZREMRANGEBYRANK', dead, 1, 0) -- removes nothing, but lets the drain continue over maxmemory
for _, job in ipairs(jobs) do
  redis.call('ZADD', dead, string.format('%.3f', now_ms / 1000), job[1])
  if job[2] then redis.call('ZREM', job[2], job[1]) end
end
take_out(spots)
-- The limits of DeadSet in sidekiq/api.rb 6.4 and 8.
redis.call('ZREMRANGEBYSCORE', dead, '-inf', string.format('%.3f', now_ms / 1000 - 15552000))
redis.call('ZREMRANGEBYRANK', dead, 0, -10000)
return outcomes
