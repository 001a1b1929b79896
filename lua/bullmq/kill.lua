-- Kill waiting or delayed jobs: they fail with a reason, and do not run until they are requeued.
--
-- A child is not killed, because its parent would wait for it without end: delete it instead. The next job of a scheduler is not killed,
-- because the scheduler would stop: use `unschedule` instead. A deduplication key without an expiry is released, as by any failure.
--
-- moves    delayed wait paused prioritized -> failed
-- writes   events
-- derived  <prefix>:<queue>:<id>
--          <prefix>:<parent_queue>:<parent>:dependencies
--          <prefix>:<queue>:de:<dedup>
--          <prefix>:<queue>:dn:<dedup>
-- KEYS     delayed waiting_children prioritized wait paused active completed failed events repeat
-- ARGV     p        str    prefix of all keys of the queue: bull:mail:
--          now_ms?  int    a test's clock; the server's when empty
--          reason?  bytes  reason of the failure
--          each     (id bytes)
-- returns each  moved        killed
--               child        it is a child, and its parent would wait for it without end; delete it instead
--               scheduler    it is the next job of a scheduler, which would stop; unschedule the scheduler instead
--               wrong_place  (place str)  it is neither waiting nor delayed
--               ghost        its hash is missing; it can only be deleted
--               later        the queue is too long to search for so many jobs at once
--               gone         no such job
-- include: keys, columns, queue_keys, batch, clock_argv2, key_types(events failed repeat)
-- include: read_fields, refusal, remove_at, scheduler, free_dedup
local reason = ARGV[3] == '' and 'killed by an operator' or ARGV[3]
local waits = {delayed = true, wait = true, paused = true, prioritized = true}
local replies, jobs, spots, seen = {}, {}, {wait = {}, paused = {}}, {}
for at = 4, #ARGV do
  local id = ARGV[at]
  local place = seen[id] or find_place(id)
  local values = read_fields(id, 'parentKey', 'rjk', 'deid')
  local refused = refusal(place, waits, values)
  if refused then
    replies[#replies + 1] = refused
  elseif (values[1] or '') ~= '' and redis.pcall('SISMEMBER', values[1] .. ':dependencies', p .. id) == 1 then
    replies[#replies + 1] = 'child'
  elseif is_next(id, values[2]) then
    replies[#replies + 1] = 'scheduler'
  else
    replies[#replies + 1], seen[id], jobs[#jobs + 1] = 'moved', 'failed', {id, place, values[3]}
    for _, spot in ipairs(lists[place] and find_in_list(lists[place], lengths[place], id, -1) or {}) do spots[place][#spots[place] + 1] = spot end
  end
end
if #jobs == 0 then return replies end

redis.call('ZREM', failed, '') -- frees nothing, but lets the script finish over maxmemory
local length = tonumber(redis.pcall('HGET', p .. 'meta', 'opts.maxLenEvents') or '') or 10000
for _, job in ipairs(jobs) do
  local id, place = job[1], job[2]
  redis.call('HSET', p .. id, 'failedReason', reason, 'finishedOn', string.format('%.0f', now_ms))
  redis.call('ZADD', failed, string.format('%.0f', now_ms), id)
  if sets[place] then redis.call('ZREM', sets[place], id) end
end
for place, positions in pairs(spots) do remove_at(lists[place], lengths[place], positions, 0) end
for _, job in ipairs(jobs) do
  free_dedup(job[1], job[3], true)
  redis.pcall('XADD', events, 'MAXLEN', '~', length, '*', 'event', 'failed', 'jobId', job[1], 'failedReason', reason, 'prev', job[2])
end
return replies
