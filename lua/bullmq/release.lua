-- Release jobs of missing workers: they run next, and no stall is counted.
--
-- Only a job without a lock is released. The lock is the only sign that a worker runs the job, and a released job with a lock would run
-- twice.
--
-- moves    active -> wait | paused | prioritized
-- writes   pc marker events stalled
-- derived  <prefix>:<queue>:<id>
--          <prefix>:<queue>:<id>:lock
-- KEYS     delayed waiting_children prioritized wait paused active completed failed meta pc marker events stalled
-- ARGV     p        str    prefix of all keys of the queue: bull:mail:
--          each     (id bytes)
-- returns each  moved        released
--               reserved     a worker holds its lock and still runs it
--               wrong_place  (place str)  it is not active
--               ghost        its hash is missing; it can only be deleted
--               later        the queue is too long to search for so many jobs at once
--               gone         no such job
-- include: keys, columns, queue_keys, batch, key_types(stalled), read_fields, refusal, remove_at, add_event, add_ready, this_queue
local sources = {active = true}
local replies, accepted, spots, seen = {}, {}, {}, {}
for at = 2, #ARGV do
  local id = ARGV[at]
  local place = seen[id] or find_place(id)
  local values = read_fields(id, 'priority')
  local refused = refusal(place, sources, true) or redis.call('EXISTS', p .. id .. ':lock') == 1 and 'reserved' or not values and 'ghost'
  if refused then
    replies[#replies + 1] = refused
  else
    replies[#replies + 1], seen[id], accepted[#accepted + 1] = 'moved', queue.place, {id, tonumber(values[1] or '') or 0}
    for _, spot in ipairs(find_in_list(active, lengths.active, id, -1)) do spots[#spots + 1] = spot end
  end
end
if #accepted == 0 then return replies end

redis.call('SREM', stalled, '') -- frees nothing, but lets the script finish over maxmemory
queue.running = queue.running - #spots
for i = #accepted, 1, -1 do add_ready(queue, accepted[i][1], accepted[i][2], true) end -- the first job of the call runs next
remove_at(active, lengths.active, spots, 0)
for _, job in ipairs(accepted) do
  redis.call('SREM', stalled, job[1])
  add_event(queue, 'waiting', 'jobId', job[1], 'prev', 'active')
end
return replies
