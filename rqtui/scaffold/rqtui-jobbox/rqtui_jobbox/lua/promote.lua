-- Promote delayed jobs: they wait for a worker now.
--
-- moves    delayed -> waiting
-- KEYS     delayed waiting running failed
-- ARGV     each  (id bytes)
-- returns each  moved        promoted
--               wrong_place  (place str)  it is in another place
--               gone         no such job
-- include: keys, key_types, batch_size(jobs), find_place
local outcomes, ids, seen = {}, {}, {}
for at = 1, #ARGV do
  local id = ARGV[at]
  local place = seen[id] or find_place(id)
  if place ~= 'delayed' then
    outcomes[#outcomes + 1] = place and {'wrong_place', place} or 'gone'
  else
    outcomes[#outcomes + 1], seen[id], ids[#ids + 1] = 'moved', 'waiting', id
  end
end
if #ids == 0 then return outcomes end

redis.call('ZREM', delayed, '') -- removes nothing, but lets the script finish over maxmemory
redis.call('RPUSH', waiting, unpack(ids))
redis.call('ZREM', delayed, unpack(ids))
return outcomes
