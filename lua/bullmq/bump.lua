-- Bump waiting jobs: the first job of the call runs next, the others follow in the order given.
--
-- Jobs with a priority run after all others. To bump such a job, first reprioritise it to 0.
--
-- moves    wait paused -> wait | paused
-- derived  <prefix>:<queue>:<id>
-- KEYS     delayed waiting_children prioritized wait paused active completed failed
-- ARGV     p     str    prefix of all keys of the queue: bull:mail:
--          each  (id bytes)
-- returns each  moved        bumped
--               wrong_place  (place str)  it is not waiting, or has a priority
--               ghost        its hash is missing; it can only be deleted
--               later        the queue is too long to search for so many jobs at once
--               gone         no such job
-- include: keys, columns, queue_keys, batch, read_fields, refusal, remove_at
local replies, jobs, spots, seen = {}, {wait = {}, paused = {}}, {wait = {}, paused = {}}, {}
for at = 2, #ARGV do
  local id = ARGV[at]
  local place = find_place(id)
  local refused = seen[id] and 'gone' or refusal(place, jobs, place and jobs[place] and read_fields(id, 'name'))
  if refused then
    replies[#replies + 1] = refused
  else
    replies[#replies + 1], seen[id] = 'moved', true
    jobs[place][#jobs[place] + 1] = id
    for _, spot in ipairs(find_in_list(lists[place], lengths[place], id, -1)) do spots[place][#spots[place] + 1] = spot end
  end
end
if not next(seen) then return replies end

redis.pcall('ZREM', failed, '') -- frees nothing, but lets the script finish over maxmemory
for place, ids in pairs(jobs) do
  for i = #ids, 1, -1 do redis.call('RPUSH', lists[place], ids[i]) end
  remove_at(lists[place], lengths[place], spots[place], 0)
end
return replies
