-- Revert jobs to their state before a verb, if they have not changed since.
--
-- Deleted jobs are handled by `restore`. A job returns to its former position in a list, if the list is still long enough. A requeued child
-- is not reverted, because its parent waits for it again or has continued.
--
-- moves    delayed prioritized wait paused failed -> delayed | prioritized | wait | paused | completed | failed
-- writes   marker events
-- derived  <prefix>:<queue>:<id>
--          <prefix>:<queue>:de:<dedup>
-- KEYS     delayed waiting_children prioritized wait paused active completed failed meta pc marker events
-- ARGV     p     str  prefix of all keys of the queue: bull:mail:
--          each  (id bytes, left str, known? bytes, place str, score str, line? bytes, errors? bytes)  as `records` returned it
-- returns each  moved    (place str)  reverted
--               changed  (place str)  it has changed since
--               taken    another job has its deduplication key now
--               flow     it is a child, and its parent waits for it again
--               gone     no such job
-- include: keys, columns, queue_keys, batch, key_types(delayed waiting_children prioritized wait paused active completed failed)
-- include: read_fields, find_place, remove_at, packed, unpacked, changing, add_event, wake_workers, this_queue, wake_when_due, put_back
local replies, accepted, seen, spots = {}, {}, {}, {wait = {}, paused = {}}
for at = 2, #ARGV, columns do
  local id, left, known, place, score, line, errors = unpack(ARGV, at, at + 6)
  local fields_then, held = unpacked(line), unpacked(errors)
  local goals = {delayed = 1, prioritized = 1, wait = 1, paused = 1, completed = 1, failed = 1}
  local fault = (not goals[left] or left == 'completed') and 'a verb leaves jobs in delayed, prioritized, wait, paused or failed'
    or not goals[place] and 'there is no place of that name'
    or lists[place] and not string.find(score, '^%d+$') and 'the score of a job in a list is its position'
    or not (tonumber(score) and string.find(score, '^[%d.e+-]+$')) and score ~= 'inf' and score ~= '-inf' and 'the score is a number'
    or (not fields_then or #fields_then ~= #changing) and 'the line is not one'
    or (not held or #held ~= 2 and #held ~= 0 or #held == 2 and not string.find(held[2], '^%d*$')) and 'the deduplication key is not one'
  if fault then return redis.error_reply('ERR row ' .. (at + 5) / columns .. ': ' .. fault .. '; nothing was changed') end
  local values = read_fields(id, 'parentKey')
  local now = find_place(id)
  local had = dedup_holder(errors)
  if not now then
    replies[#replies + 1] = 'gone'
  elseif now ~= left or seen[id] or not values or pack_changing(id) ~= known then
    replies[#replies + 1] = {'changed', now}
  elseif (values[1] or '') ~= '' and (place == 'failed' or place == 'completed') then
    replies[#replies + 1] = 'flow'
  elseif had and had ~= id then
    replies[#replies + 1] = 'taken'
  else
    replies[#replies + 1], seen[id] = {'moved', lists[place] and queue.place or place}, true
    accepted[#accepted + 1] = {id = id, left = left, place = place, score = score, fields = fields_then, errors = errors}
    for _, spot in ipairs(lists[left] and find_in_list(lists[left], lengths[left], id, -1) or {}) do spots[left][#spots[left] + 1] = spot end
  end
end
if #accepted == 0 then return replies end
table.sort(accepted, function(a, b) return tonumber(a.score) < tonumber(b.score) end) -- a position in a list counts the jobs before it

redis.call('ZREM', failed, '') -- frees nothing, but lets the script finish over maxmemory
local aside, pushed = 0, {wait = 0, paused = 0}
for _, job in ipairs(accepted) do
  for i, name in ipairs(changing) do
    local value, key = job.fields[i], p .. job.id
    if value == '' then redis.call('HDEL', key, name) else redis.call('HSET', key, name, string.sub(value, 2)) end
  end
  set_dedup(job.id, job.errors)
  if lists[job.left] then
    if lists[job.place] then -- the job only changes its position; it is at the head until it gets the right one
      redis.call('LPUSH', queue.list, job.id)
      aside, pushed[queue.place] = aside + 1, pushed[queue.place] + 1
    else
      put_back(job.id, job.place, job.score, job.left, 0)
    end
  end
end
for place, positions in pairs(spots) do remove_at(lists[place], lengths[place], positions, pushed[place]) end
for _, job in ipairs(accepted) do
  if lists[job.left] and lists[job.place] then
    put_back(job.id, job.place, job.score, job.left, aside)
    redis.call('LREM', queue.list, 1, job.id)
    aside = aside - 1
  elseif not lists[job.left] then
    put_back(job.id, job.place, job.score, job.left, aside)
    if job.left ~= job.place then redis.call('ZREM', sets[job.left], job.id) end
  end
end
return replies
