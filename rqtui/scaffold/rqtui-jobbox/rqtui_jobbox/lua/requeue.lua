-- Requeue failed jobs: they run again, with new attempts.
--
-- moves    failed -> waiting
-- derived  jobbox:job:<id>
-- KEYS     delayed waiting running failed
-- ARGV     each  (id bytes)
-- returns each  moved        requeued
--               wrong_place  (place str)  it is in another place
--               ghost        its record is missing; it cannot run, but can be deleted
--               gone         no such job
-- include: keys, key_types, batch_size(jobs), find_place, has_record
local outcomes, ids, seen = {}, {}, {}
for at = 1, #ARGV do
  local id = ARGV[at]
  local place = seen[id] or find_place(id)
  if place ~= 'failed' then
    outcomes[#outcomes + 1] = place and {'wrong_place', place} or 'gone'
  elseif not has_record(id) then
    outcomes[#outcomes + 1] = 'ghost'
  else
    outcomes[#outcomes + 1], seen[id], ids[#ids + 1] = 'moved', 'waiting', id
  end
end
if #ids == 0 then return outcomes end

redis.call('ZREM', failed, '') -- removes nothing, but lets the script finish over maxmemory
for _, id in ipairs(ids) do
  redis.call('HDEL', 'jobbox:job:' .. id, 'error', 'worker')
  redis.call('HSET', 'jobbox:job:' .. id, 'attempts', 0)
  redis.call('RPUSH', waiting, id)
  redis.call('ZREM', failed, id)
end
return outcomes
