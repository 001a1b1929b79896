-- Move jobs that wait, failed or were canceled to the same place of another queue, with all their data.
--
-- Queued jobs go behind the jobs that are queued there, in their order. The field `origin`, which names the queue of a job for retries,
-- requeues and parents, names the other queue afterwards. With a line of `records`, a job is moved only if its fields have not changed
-- since then. The script searches for an id near both ends of the queues.
--
-- moves    scheduled deferred queued failed canceled ->
-- writes   queues to_scheduled to_deferred to_queued to_failed to_canceled
-- derived  <prefix>:job:<id>
--          <prefix>:job:<id>:dependents
--          <prefix>:job::<id>:dependencies
--          <prefix>:executions:<id>
--          <prefix>:execution:<id>:<execution>
-- KEYS     scheduled deferred ready_to_enqueue queued finished failed canceled queues lock
--          to_scheduled         zset  of the other queue, like all that follow
--          to_deferred          zset
--          to_ready_to_enqueue  zset
--          to_queued            list
--          to_intermediate      list
--          to_finished          zset
--          to_failed            zset
--          to_canceled          zset
-- ARGV     prefix    str  prefix of all keys: rq
--          now_ms?   int  a test's clock; the server's when empty
--          to_queue  str  the name of the other queue
--          place?    str  only jobs in this place; empty: in any place
--          each      (id bytes, line? bytes)
-- returns each  moved        (place str)  moved to the other queue
--               exists       the other queue has a job of this id
--               changed      it has changed since it was read, and stays
--               due          it is due, and a scheduler moves it within a second
--               reserved     it was canceled while a worker ran it; move it when that run has ended
--               wrong_place  (place str)  it is in another place, or in one from which no job is moved
--               stray        its field origin does not name this queue
--               taken        a worker has just taken it
--               later        the queue is too long to search for so many jobs at once
--               ghost        its hash is missing; it cannot run, but can be deleted
--               limited      it has a rate limit, whose slots only RQ can assign
--               gone         no such job
-- include: keys, args(to_queue), columns, queue_keys, batch, clock_argv2
local head = prefix .. ':queue:'
local from_queue = string.sub(queued, #head + 1)
if queued ~= head .. from_queue or to_queue == '' or to_queue == from_queue or to_queued ~= head .. to_queue then
  return redis.error_reply('ERR the key of a queue is ' .. head .. 'NAME, and to_queue is the name of another queue; nothing was changed')
end
if ARGV[4] ~= '' and not registries[ARGV[4]] and not ({queued = 1, started = 1, intermediate = 1})[ARGV[4]] then
  return redis.error_reply('ERR there is no place of that name; nothing was changed')
end
-- include: key_types(queues to_scheduled to_deferred to_ready_to_enqueue to_queued to_intermediate to_finished to_failed to_canceled)
-- include: read_fields, refusal, find_place, is_held, changing, remove_at
local is_locked = redis.call('GET', lock)
local function is_in_other_queue(id)
  for _, key in ipairs({to_scheduled, to_deferred, to_ready_to_enqueue, to_finished, to_failed, to_canceled}) do
    if redis.call('ZSCORE', key, id) then return true end
  end
  for _, key in ipairs({to_queued, to_intermediate}) do
    if #find_in_list(key, redis.call('LLEN', key), id, 1) > 0 then return true end
  end
  return false
end
local leaves = {scheduled = true, deferred = true, queued = true, failed = true, canceled = true}
local targets = {scheduled = to_scheduled, deferred = to_deferred, failed = to_failed, canceled = to_canceled}
local replies, arrivals, spots, seen = {}, {}, {}, {}
for at = 5, #ARGV, columns do
  local id, known = ARGV[at], ARGV[at + 1]
  local values = not seen[id] and read_fields(id, 'status', 'rate_limit_key', 'origin') or nil
  local current = not seen[id] and find_place(id, values and values[1] or '') or nil
  local score = current ~= 'queued' and leaves[current or ''] and redis.call('ZSCORE', registries[current], id)
  local refused = refusal(current, leaves, values)
    or not current and (not values and 'gone' or length > 2 * sight and 'later' or 'taken')
    or ARGV[4] ~= '' and ARGV[4] ~= current and {'wrong_place', current}
    or is_held(id, values[1]) and 'reserved'
    or values[3] ~= from_queue and 'stray'
    or known ~= '' and known ~= pack_changing(id) and 'changed'
    or current == 'scheduled' and is_locked and tonumber(score) * 1000 <= now_ms and 'due'
    or is_in_other_queue(id) and 'exists'
  if refused then
    replies[#replies + 1] = refused
  else
    replies[#replies + 1], seen[id] = {'moved', current}, true
    local position
    for _, spot in ipairs(find_in_list(queued, length, id, 1)) do
      spots[#spots + 1], position = spot, math.min(position or spot, spot)
    end
    arrivals[#arrivals + 1] = {id = id, place = current, score = score, position = position or 0}
  end
end
if #arrivals == 0 then return replies end
table.sort(arrivals, function(a, b) return a.position < b.position end) -- so that queued jobs keep their order

redis.pcall('ZREM', failed, '') -- frees nothing, but lets the script finish over maxmemory
redis.call('SADD', queues, to_queued)
for _, job in ipairs(arrivals) do
  redis.call('HSET', prefix .. ':job:' .. job.id, 'origin', to_queue)
  if job.place == 'queued' then
    redis.call('RPUSH', to_queued, job.id)
  else
    redis.call('ZADD', targets[job.place], job.score, job.id)
  end
end
for _, job in ipairs(arrivals) do
  for name in pairs(leaves) do
    if registries[name] then redis.call('ZREM', registries[name], job.id) end
  end
end
remove_at(queued, length, spots, 0)
local function touch_parents(id) -- a worker that ends a parent watches this set, and then reads the queues of its jobs again
  local parents = redis.pcall('SMEMBERS', prefix .. ':job::' .. id .. ':dependencies')
  for _, parent in ipairs(parents.err and {} or parents) do
    local dependents = prefix .. ':job:' .. parent .. ':dependents'
    if redis.pcall('SADD', dependents, '') == 1 then redis.call('SREM', dependents, '') end
  end
end
for _, job in ipairs(arrivals) do
  if job.place == 'deferred' then touch_parents(job.id) end
end
return replies
