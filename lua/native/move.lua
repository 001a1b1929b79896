-- Move waiting or dead jobs to the same place of another queue, with all their data.
--
-- A ready job goes behind the jobs of its priority that wait there; the time since which it has waited stays. With a
-- line of attempts (`-` for none), a job is moved only if its line has not changed since it was read. Both queues must
-- be on one server: in a Cluster they are in different slots.
--
-- moves    scheduled ready dead ->
-- writes   jobs bodies attempts errors meta events minutes queues to_scheduled to_ready to_dead to_jobs to_bodies
--          to_attempts to_errors to_meta to_events to_minutes to_wake
-- KEYS     scheduled ready reserved done dead jobs bodies attempts errors meta events minutes
--          queues        set     names of queues
--          to_scheduled  zset    of the other queue, like all that follow
--          to_ready      zset
--          to_reserved   zset
--          to_done       zset
--          to_dead       zset
--          to_jobs       hash
--          to_bodies     hash
--          to_attempts   hash
--          to_errors     hash
--          to_meta       hash
--          to_events     stream
--          to_minutes    stream
--          to_wake       zset
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          to_queue  str     the name of the other queue
--          place?    str     move only from this place; from any when empty
--          each      (id bytes, line? bytes)
-- returns each  moved        (place str)  moved to the other queue
--               exists       the other queue has a job of this id
--               changed      it has changed since it was read, and stays
--               wrong_place  (place str)  it is neither scheduled, ready nor dead
--               gone         no such job
-- include: keys, args
local version, watch, last_minute = unpack(redis.call('HMGET', meta, 'version', 'events', 'minute'))
local to_version, to_seq, to_watch, to_last_minute =
  unpack(redis.call('HMGET', to_meta, 'version', 'seq', 'events', 'minute'))
-- include: key_types(queues jobs bodies attempts errors events minutes)
-- include: key_types(to_wake to_jobs to_bodies to_attempts to_errors to_events to_minutes), opening, place_of, batch
if to_queue == '' or to_meta == meta then
  return redis.error_reply('ERR to_queue is the name of another queue; nothing was changed')
end
if to_version and to_version ~= '2' and to_version ~= '1' then
  return redis.error_reply('ERR the other queue has schema version ' .. to_version .. ', these scripts speak 1 and 2; nothing was changed')
end
if to_seq and not string.match(to_seq, '^%d+$') then
  return redis.error_reply('ERR the field seq of ' .. to_meta .. ' is not a number; nothing was changed')
end
local taken = {to_scheduled, to_ready, to_reserved, to_done, to_dead}
for _, key in ipairs(taken) do redis.call('ZCARD', key) end
local function is_taken(id) -- whether the other queue has a job of this id
  for _, key in ipairs(taken) do
    if redis.call('ZSCORE', key, id) then return true end
  end
  return redis.call('HEXISTS', to_jobs, id) == 1
end
local outcomes, moved_ids, arrivals, seen = {}, {}, {}, {}
local leaves, other = {scheduled = {}, ready = {}, dead = {}}, {scheduled = to_scheduled, ready = to_ready, dead = to_dead}
for at = 4, #ARGV, 2 do
  local id, known = ARGV[at], ARGV[at + 1]
  local from = not seen[id] and place_of(id)
  local line = redis.call('HGET', attempts, id) or ''
  if not from then
    outcomes[#outcomes + 1] = 'gone'
  elseif not leaves[from] or place ~= '' and place ~= from then
    outcomes[#outcomes + 1] = {'wrong_place', from}
  elseif known ~= '' and known ~= (line == '' and '-' or line) then
    outcomes[#outcomes + 1] = 'changed'
  elseif is_taken(id) then
    outcomes[#outcomes + 1] = 'exists'
  else
    outcomes[#outcomes + 1], seen[id], moved_ids[#moved_ids + 1] = {'moved', from}, true, id
    table.insert(leaves[from], id)
    arrivals[#arrivals + 1] = {id = id, row = at, from = from, score = redis.call('ZSCORE', places[from], id), line = line}
  end
end
if #moved_ids == 0 then return outcomes end
table.sort(arrivals, function(a, b) -- so that they keep their order
  local first, second = tonumber(a.score), tonumber(b.score)
  return first < second or first == second and a.row < b.row
end)

redis.call('ZREM', ready, '') -- removes nothing, but lets the drain continue over maxmemory
local next_seq = tonumber(to_seq or 0)
for _, job in ipairs(arrivals) do
  if job.from == 'ready' then
    next_seq = next_seq + 1
    local score = tonumber(job.score)
    local base = score - score % 2 ^ 40
    if base ~= base then base = 0 end -- An infinite score, which another program wrote, gives NaN here.
    job.score = string.format('%.0f', base + next_seq)
    job.line = string.gsub(job.line, '^(%d+ %S+) %S+', '%1 ' .. job.score)
  end
  for hash, value in pairs({
    [to_jobs] = redis.call('HGET', jobs, job.id), [to_bodies] = redis.call('HGET', bodies, job.id),
    [to_errors] = redis.call('HGET', errors, job.id), [to_attempts] = job.line ~= '' and job.line,
  }) do
    if value then redis.call('HSET', hash, job.id, value) end
  end
  redis.call('ZADD', other[job.from], job.score, job.id)
end
redis.call('HSET', to_meta, 'version', '2', 'seq', string.format('%.0f', next_seq))
redis.call('SADD', queues, to_queue)
for from, ids in pairs(leaves) do
  if #ids > 0 then redis.call('ZREM', places[from], unpack(ids)) end
end
for _, key in ipairs({jobs, bodies, attempts, errors}) do redis.call('HDEL', key, unpack(moved_ids)) end
-- include: minute, record_events
note('HINCRBY', meta, 'moved_out', #moved_ids)
record_events('move', moved_ids)
local to_minute = now_ms - now_ms % 60000
if to_minute > (tonumber(to_last_minute) or 0) then
  note('HSET', to_meta, 'minute', to_minute)
  local counters = redis.pcall('HGETALL', to_meta)
  if #counters < 400 then note('XADD', to_minutes, 'MAXLEN', '~', 1440, to_minute .. '-0', unpack(counters)) end
end
note('HINCRBY', to_meta, 'moved_in', #moved_ids)
if #leaves.dead < #moved_ids then note('ZADD', to_wake, 0, 'wake') end
if to_watch == 'on' or (tonumber(to_watch) or 0) > now_ms then
  for _, job in ipairs(arrivals) do note('XADD', to_events, 'MAXLEN', '~', 10000, '*', 'verb', 'move', 'id', job.id) end
end
return outcomes
