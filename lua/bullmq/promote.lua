-- Promote delayed jobs: they are ready now.
--
-- A job keeps its priority. The next job of a scheduler may be promoted; the job after it is still due at its own time. A parent that
-- waits for its children is not promoted, because it would run without their results.
--
-- moves    delayed -> wait | paused | prioritized
-- writes   pc marker events
-- derived  <prefix>:<queue>:<id>
-- KEYS     delayed waiting_children prioritized wait paused active completed failed meta pc marker events
-- ARGV     p        str    prefix of all keys of the queue: bull:mail:
--          each     (id bytes)
-- returns each  moved        promoted
--               wrong_place  (place str)  it is not delayed
--               ghost        its hash is missing; it can only be deleted
--               later        the queue is too long to search for so many jobs at once
--               gone         no such job
-- include: keys, columns, queue_keys, batch, read_fields, refusal, add_event, add_ready, this_queue
local sources = {delayed = true}
local replies, accepted, seen = {}, {}, {}
for at = 2, #ARGV do
  local id = ARGV[at]
  local place = seen[id] or find_place(id)
  local values = read_fields(id, 'priority')
  local refused = refusal(place, sources, values)
  if refused then
    replies[#replies + 1] = refused
  else
    replies[#replies + 1], seen[id], accepted[#accepted + 1] = 'moved', queue.place, {id, tonumber(values[1] or '') or 0}
  end
end
if #accepted == 0 then return replies end

redis.call('ZREM', delayed, '') -- frees nothing, but lets the script finish over maxmemory
for _, job in ipairs(accepted) do
  redis.call('HSET', p .. job[1], 'delay', 0)
  add_ready(queue, job[1], job[2], false)
  redis.call('ZREM', delayed, job[1])
  add_event(queue, 'waiting', 'jobId', job[1], 'prev', 'delayed')
end
return replies
