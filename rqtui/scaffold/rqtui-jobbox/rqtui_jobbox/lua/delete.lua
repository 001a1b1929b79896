-- Delete jobs that no worker runs, with their records.
--
-- moves    delayed waiting failed ->
-- derived  jobbox:job:<id>
-- KEYS     delayed waiting running failed
-- ARGV     each  (id bytes)
-- returns each  moved     deleted
--               reserved  a worker runs it
--               gone      no such job
-- include: keys, key_types, batch_size(jobs), find_place
local outcomes, ids, seen = {}, {}, {}
for at = 1, #ARGV do
  local id = ARGV[at]
  local place = not seen[id] and find_place(id)
  if place and place ~= 'running' then
    outcomes[#outcomes + 1], seen[id], ids[#ids + 1] = 'moved', true, id
  else
    outcomes[#outcomes + 1] = place and 'reserved' or 'gone'
  end
end
if #ids == 0 then return outcomes end

redis.call('ZREM', delayed, unpack(ids))
redis.call('ZREM', failed, unpack(ids))
for _, id in ipairs(ids) do
  redis.call('LREM', waiting, 0, id)
  redis.call('DEL', 'jobbox:job:' .. id)
end
return outcomes
