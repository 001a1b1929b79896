-- Reprioritise waiting or delayed jobs. Lower numbers run first, from 1 on; priority 0 runs before all others.
--
-- A job becomes the last one of its new priority. A delayed job stays delayed, and has the new priority once it is due.
--
-- moves    delayed wait paused prioritized -> delayed | wait | paused | prioritized
-- writes   pc marker
-- derived  <prefix>:<queue>:<id>
-- KEYS     delayed waiting_children prioritized wait paused active completed failed meta pc marker events
-- ARGV     p         str    prefix of all keys of the queue: bull:mail:
--          priority  int    0 to 2097151
--          each      (id bytes)
-- returns each  moved        reprioritised
--               wrong_place  (place str)  it is neither waiting nor delayed
--               ghost        its hash is missing; it can only be deleted
--               later        the queue is too long to search for so many jobs at once
--               gone         no such job
-- include: keys, args(priority), columns, queue_keys, batch
if not string.find(ARGV[2], '^%d+$') or priority > 2097151 then
  return redis.error_reply('ERR a priority is 0 to 2097151; nothing was changed')
end
-- include: read_fields, refusal, remove_at, add_ready, this_queue
local waits = {delayed = true, wait = true, paused = true, prioritized = true}
local replies, jobs, spots, seen, pushed = {}, {}, {wait = {}, paused = {}}, {}, {wait = 0, paused = 0}
for at = 3, #ARGV do
  local id = ARGV[at]
  local place = find_place(id)
  local refused = seen[id] and 'gone' or refusal(place, waits, place and waits[place] and read_fields(id, 'priority'))
  if refused then
    replies[#replies + 1] = refused
  else
    replies[#replies + 1], seen[id], jobs[#jobs + 1] = 'moved', true, {id, place}
    for _, spot in ipairs(lists[place] and find_in_list(lists[place], lengths[place], id, -1) or {}) do spots[place][#spots[place] + 1] = spot end
  end
end
if #jobs == 0 then return replies end

redis.pcall('ZREM', delayed, '') -- frees nothing, but lets the script finish over maxmemory
for _, job in ipairs(jobs) do
  local id, place = job[1], job[2]
  redis.call('HSET', p .. id, 'priority', priority)
  if place ~= 'delayed' then
    add_ready(queue, id, priority, false)
    if priority == 0 then
      pushed[queue.place] = pushed[queue.place] + 1
      if place == 'prioritized' then redis.call('ZREM', prioritized, id) end
    end
  end
end
for place, positions in pairs(spots) do remove_at(lists[place], lengths[place], positions, pushed[place]) end
return replies
