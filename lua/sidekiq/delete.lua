-- Delete jobs that no process runs.
--
-- An entry is searched for near both ends of the queue.
--
-- moves    schedule retry queue dead ->
-- KEYS     schedule retry queue dead
-- ARGV     queue     str   its name
--          place?    str   only in this place; anywhere when empty
--          each      (member bytes)
-- returns each  moved        deleted
--               later        the queue is too long to search for so many at once
--               wrong_place  (place str)  a process runs it, or died while it ran: stop the process, or release the job
--               gone         it is not there any more
-- include: keys, args(place), columns, key_types(schedule retry dead), known_place, batch, take_out
local zsets = {{'schedule', schedule}, {'retry', retry}, {'dead', dead}}
local outcomes, seen, jobs, spots = {}, {}, {}, {}
for at = 3, #ARGV do
  local member, key = ARGV[at], nil
  for _, zset in ipairs(zsets) do
    local fits = not key and (place == '' or place == zset[1]) and not seen[zset[1] .. member]
    if fits and redis.call('ZSCORE', zset[2], member) then key, seen[zset[1] .. member] = zset[2], true end
  end
  local spot, is_unsure
  if not key and (place == '' or place == 'queue') then spot, is_unsure = next_spot(member) end
  if place == 'work' or place == 'lost' then
    outcomes[#outcomes + 1] = {'wrong_place', place}
  elseif key then
    outcomes[#outcomes + 1], jobs[#jobs + 1] = 'moved', {key, member}
  elseif spot then
    outcomes[#outcomes + 1], spots[#spots + 1] = 'moved', {spot, member}
  else
    outcomes[#outcomes + 1] = is_unsure and 'later' or 'gone'
  end
end
if #jobs + #spots == 0 then return outcomes end

redis.call('LTRIM', queue, 0, -1) -- removes nothing, but lets the drain continue over maxmemory
for _, job in ipairs(jobs) do redis.call('ZREM', job[1], job[2]) end
take_out(spots)
return outcomes
