-- Delete jobs that no worker runs, with their results.
--
-- A job that other jobs depend on is deleted only with `force`; those stay deferred until they are promoted. The same applies to a job in
-- no place, because a worker may have taken it just now. The script searches for an id near both ends of the queue.
--
-- moves    scheduled deferred ready_to_enqueue queued finished failed canceled ->
-- derived  <prefix>:job:<id>
--          <prefix>:job:<id>:dependents
--          <prefix>:job::<id>:dependencies
--          <prefix>:results:<id>
--          <prefix>:executions:<id>
--          <prefix>:execution:<id>:<execution>
--          <prefix>:group:<group>
-- KEYS     scheduled deferred ready_to_enqueue queued finished failed canceled
-- ARGV     prefix   str   prefix of all keys: rq
--          place?   str   only jobs in this place; empty: in any place
--          force?   bool  even if other jobs depend on it
--          each     (id bytes)
-- returns each  moved        deleted
--               reserved     a worker runs it; cancel it first
--               wrong_place  (place str)  it is in another place
--               dependents   (jobs int)  other jobs depend on it, and would stay deferred; use force
--               taken        it is in no place: a worker has just taken or lost it; use force
--               later        the queue is too long to search for so many jobs at once
--               limited      it has a rate limit, whose slots only RQ can assign
--               gone         no such job
-- include: keys, args(place force), columns, queue_keys
if registries[place] then redis.call('ZCARD', registries[place]) end -- the key of a named place must have the right type
-- include: batch, read_fields, find_place, is_held, delete_data, remove_at
if place ~= '' and not registries[place] and not ({queued = 1, started = 1, intermediate = 1})[place] then
  return redis.error_reply('ERR there is no place of that name; nothing was changed')
end
local replies, jobs, spots, leaving = {}, {}, {}, {}
for at = 4, #ARGV do leaving[ARGV[at]] = true end
local seen = {}
for at = 4, #ARGV do
  local id = ARGV[at]
  local values = read_fields(id, 'status', 'rate_limit_key', 'group_id')
  local status = values and values[1] or ''
  local current = not seen[id] and find_place(id, status)
  local others = current and not force and count_dependents(id, leaving) or 0
  if seen[id] or not current and not values then
    replies[#replies + 1] = 'gone'
  elseif is_held(id, status) then
    replies[#replies + 1] = 'reserved'
  elseif values and values[2] and values[2] ~= '' then
    replies[#replies + 1] = 'limited'
  elseif current and place ~= '' and current ~= place then
    replies[#replies + 1] = {'wrong_place', current}
  elseif not current and not force then
    replies[#replies + 1] = length > 2 * sight and 'later' or 'taken'
  elseif others > 0 then
    replies[#replies + 1] = {'dependents', others}
  else
    replies[#replies + 1], seen[id], jobs[#jobs + 1] = 'moved', true, {id, values and values[3]}
    for _, spot in ipairs(find_in_list(queued, length, id, 1)) do spots[#spots + 1] = spot end
  end
end
if #jobs == 0 then return replies end

for _, job in ipairs(jobs) do
  for _, key in pairs(registries) do redis.call('ZREM', key, job[1]) end
end
remove_at(queued, length, spots, 0)
for _, job in ipairs(jobs) do delete_data(job[1], job[2]) end
return replies
