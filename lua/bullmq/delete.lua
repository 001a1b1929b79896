-- Delete jobs that no worker runs, with all their data.
--
-- If the last child of a parent is deleted, the parent becomes ready. A parent whose own children have not run is deleted only with
-- `force`; the children still run. A job whose worker holds the lock stays. So does the next job of a scheduler, because the scheduler
-- would stop. A job that is in no place is deleted, too.
--
-- With `sparing`, which `purge` uses, a child that its parent waits for stays, and so does that parent.
--
-- moves    delayed waiting_children prioritized wait paused active completed failed ->
-- writes   pc marker events stalled
-- derived  <prefix>:<queue>:<id>
--          <prefix>:<queue>:<id>:lock
--          <prefix>:<queue>:<id>:logs
--          <prefix>:<queue>:<id>:dependencies
--          <prefix>:<queue>:<id>:processed
--          <prefix>:<queue>:<id>:failed
--          <prefix>:<queue>:<id>:unsuccessful
--          <prefix>:<queue>:de:<dedup>
--          <prefix>:<queue>:dn:<dedup>
--          <prefix>:<parent_queue>:<parent>
--          <prefix>:<parent_queue>:<parent>:dependencies
--          <prefix>:<parent_queue>:waiting-children
--          <prefix>:<parent_queue>:wait
--          <prefix>:<parent_queue>:paused
--          <prefix>:<parent_queue>:prioritized
--          <prefix>:<parent_queue>:active
--          <prefix>:<parent_queue>:meta
--          <prefix>:<parent_queue>:pc
--          <prefix>:<parent_queue>:marker
--          <prefix>:<parent_queue>:events
-- KEYS     delayed waiting_children prioritized wait paused active completed failed meta pc marker events repeat
--          stalled
-- ARGV     p         str    prefix of all keys of the queue: bull:mail:
--          place?    str    only jobs in this place; empty: in any place
--          force?    bool   even if its children have not run
--          sparing?  bool   not if its parent waits for it
--          each      (id bytes)
-- returns each  moved        deleted
--               reserved     a worker holds its lock
--               wrong_place  (place str)  it is in another place
--               scheduler    it is the next job of a scheduler, which would stop; unschedule the scheduler instead
--               children     (jobs int)  its children have not run, and nothing would wait for them; use force
--               child        its parent waits for it
--               later        the queue is too long to search for so many jobs at once
--               gone         no such job
-- include: keys, args(place force sparing), columns, queue_keys, batch, key_types(repeat stalled events)
if place ~= '' and not sets[place] and not lists[place] then
  return redis.error_reply('ERR there is no place of that name; nothing was changed')
end
if sets[place] then redis.call('ZCARD', sets[place]) end -- the key of a named place must have the right type
if lists[place] then redis.call('LLEN', lists[place]) end
-- include: read_fields, is_hidden, remove_at, scheduler, free_dedup, delete_data, add_event, add_ready
local keys = {wait = wait, paused = paused, prioritized = prioritized, active = active, meta = meta, pc = pc, marker = marker, events = events}
local function parent_of(key) -- the prefix of its queue and its id; nil if the parent is missing
  if (key or '') == '' or redis.call('EXISTS', key) == 0 then return end
  local q, id = string.match(key, '^(.*:)([^:]*)$')
  if q then read_queue(q, q == p and keys or nil) end -- reads the queue that the parent may enter, before the first write
  return q, id
end
local function leave_parent(key, parent) -- a parent without further children becomes ready
  local q, id = parent_of(parent)
  if not q or redis.pcall('SREM', parent .. ':dependencies', key) ~= 1 then return end
  if redis.call('SCARD', parent .. ':dependencies') > 0 or not redis.call('ZSCORE', q .. 'waiting-children', id) then return end
  add_ready(read_queue(q), id, 0, true)
  redis.call('ZREM', q .. 'waiting-children', id)
  add_event(read_queue(q), 'waiting', 'jobId', id, 'prev', 'waiting-children')
end
local function children_of(id) -- the number of children that have not run
  local count = redis.pcall('SCARD', p .. id .. ':dependencies')
  return type(count) == 'number' and count or 0
end
local queue = {keys = keys, length = tonumber(redis.pcall('HGET', meta, 'opts.maxLenEvents') or '') or 10000} -- the state that add_event needs
local replies, jobs, spots, seen = {}, {}, {wait = {}, paused = {}, active = {}}, {}
for at = 5, #ARGV do
  local id = ARGV[at]
  local values = read_fields(id, 'parentKey', 'rjk', 'deid')
  local parent = values and values[1] or ''
  local current = not seen[id] and find_place(id)
  if seen[id] or not current and not values then
    replies[#replies + 1] = not seen[id] and is_hidden() and 'later' or 'gone'
  elseif redis.call('EXISTS', p .. id .. ':lock') == 1 then
    replies[#replies + 1] = 'reserved'
  elseif not current and is_hidden() then
    replies[#replies + 1] = 'later'
  elseif current and place ~= '' and current ~= place then
    replies[#replies + 1] = {'wrong_place', current}
  elseif values and is_next(id, values[2]) then
    replies[#replies + 1] = 'scheduler'
  elseif (not force or sparing) and children_of(id) > 0 then
    replies[#replies + 1] = {'children', children_of(id)}
  elseif sparing and parent ~= '' and redis.pcall('SISMEMBER', parent .. ':dependencies', p .. id) == 1 then
    replies[#replies + 1] = 'child'
  else
    replies[#replies + 1], seen[id] = 'moved', true
    parent_of(parent)
    jobs[#jobs + 1] = {id = id, place = current, deid = values and values[3], parent = parent}
    for _, spot in ipairs(lists[current] and find_in_list(lists[current], lengths[current], id, -1) or {}) do spots[current][#spots[current] + 1] = spot end
  end
end
if #jobs == 0 then return replies end

redis.pcall('ZREM', failed, '') -- frees nothing, but lets the script finish over maxmemory
for _, job in ipairs(jobs) do
  if sets[job.place] then redis.call('ZREM', sets[job.place], job.id) end
end
for name, positions in pairs(spots) do remove_at(lists[name], lengths[name], positions, 0) end
for _, job in ipairs(jobs) do
  redis.call('SREM', stalled, job.id)
  leave_parent(p .. job.id, job.parent)
  free_dedup(job.id, job.deid, false)
  delete_data(job.id)
  add_event(queue, 'removed', 'jobId', job.id, 'prev', job.place == 'waiting_children' and 'waiting-children' or job.place or 'unknown')
end
return replies
