-- Requeue failed or completed jobs: they run again.
--
-- A job gets all its attempts again, and its stalls are reset. With `keep_attempts` the number of attempts stays, and the job has one more
-- try. The job keeps its priority, logs and stack traces. A child is again one of those that its parent waits for. A parent that has
-- already continued stays in its place.
--
-- moves    completed failed -> wait | paused | prioritized
-- writes   pc marker events
-- derived  <prefix>:<queue>:<id>
--          <prefix>:<parent_queue>:<parent>
--          <prefix>:<parent_queue>:<parent>:dependencies
--          <prefix>:<parent_queue>:<parent>:unsuccessful
--          <prefix>:<parent_queue>:<parent>:failed
--          <prefix>:<parent_queue>:<parent>:processed
-- KEYS     delayed waiting_children prioritized wait paused active completed failed meta pc marker events
-- ARGV     p               str    prefix of all keys of the queue: bull:mail:
--          keep_attempts?  bool   keep the number of its attempts
--          each            (id bytes)
-- returns each  moved        requeued
--               wrong_place  (place str)  it is neither failed nor completed
--               ghost        its hash is missing; it can only be deleted
--               later        the queue is too long to search for so many jobs at once
--               gone         no such job
-- include: keys, args(keep_attempts), columns, queue_keys, batch, read_fields, refusal, add_event, add_ready, this_queue
local sources = {completed = true, failed = true}
local replies, accepted, seen = {}, {}, {}
for at = 3, #ARGV do
  local id = ARGV[at]
  local place = seen[id] or find_place(id)
  local values = read_fields(id, 'priority', 'opts', 'parentKey')
  local refused = refusal(place, sources, values)
  if refused then
    replies[#replies + 1] = refused
  else
    replies[#replies + 1], seen[id] = 'moved', queue.place
    local ok, opts = pcall(cjson.decode, values[2] or '')
    accepted[#accepted + 1] = {id = id, place = place, priority = tonumber(values[1] or '') or 0, parent = values[3],
      is_next = ok and type(opts) == 'table' and opts.lifo == true}
  end
end
if #accepted == 0 then return replies end

redis.pcall('ZREM', failed, '') -- frees nothing, but lets the script finish over maxmemory
for _, job in ipairs(accepted) do
  local key = p .. job.id
  redis.call('HDEL', key, 'finishedOn', 'processedOn', job.place == 'failed' and 'failedReason' or 'returnvalue', 'defa')
  if not keep_attempts then redis.call('HDEL', key, 'atm', 'ats', 'stc') end
  add_ready(queue, job.id, job.priority, job.is_next and job.priority == 0)
  redis.call('ZREM', sets[job.place], job.id)
  local parent = job.parent or ''
  if parent ~= '' and redis.call('EXISTS', parent) == 1 then
    local is_back = job.place == 'completed' and redis.pcall('HDEL', parent .. ':processed', key) == 1
      or job.place == 'failed' and (redis.pcall('ZREM', parent .. ':unsuccessful', key) == 1 or redis.pcall('HDEL', parent .. ':failed', key) == 1)
    if is_back then redis.pcall('SADD', parent .. ':dependencies', key) end
  end
  add_event(queue, 'waiting', 'jobId', job.id, 'prev', job.place)
end
return replies
