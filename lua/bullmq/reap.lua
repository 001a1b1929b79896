-- Reap jobs of dead workers: jobs without a lock become ready, as in BullMQ's own check for stalled jobs.
--
-- A job with a lock stays. Each stall is counted. After the second one, the job fails when a worker takes it, unless a scheduler created
-- it. An id without a hash is removed, because a worker would run it without a name. `next_ms` is the time until the next lock may
-- expire, -1 if there is none.
--
-- moves    active -> wait | paused |
-- writes   marker events stalled
-- derived  <prefix>:<queue>:<id>
--          <prefix>:<queue>:<id>:lock
--          <prefix>:<queue>:repeat:<scheduler>
-- KEYS     prioritized wait paused active meta pc marker events stalled repeat
-- ARGV     p        str    prefix of all keys of the queue: bull:mail:
--          limit    int    jobs per call, 1 to 1000
-- returns  moved  (moved int, ready int, dead int, next_ms int)  reaped
--          empty  (next_ms int)  all active jobs have their lock
-- include: keys, args
if #ARGV < 2 or p == '' or string.sub(active, 1, #p) ~= p or not string.find(ARGV[2], '^%d+$') or limit < 1 or limit > 1000 then
  return redis.error_reply('ERR limit is 1 to 1000; nothing was changed')
end
local length = redis.call('LLEN', active)
-- include: key_types(stalled repeat), read_fields, remove_at, add_event, add_ready, this_queue
local found, jobs, spots, next_ms = redis.call('LRANGE', active, -limit - 3999, -1), {}, {}, nil
for i = #found, 1, -1 do
  if #spots == limit then break end
  local left_ms = redis.call('PTTL', p .. found[i] .. ':lock')
  if left_ms == -2 then
    local values = read_fields(found[i], 'rjk')
    if values then jobs[#jobs + 1] = {found[i], values[1] or ''} end
    spots[#spots + 1] = length - #found + i - 1
  elseif left_ms ~= -1 then
    next_ms = math.min(next_ms or left_ms, left_ms)
  end
end
if #spots == 0 then return {'empty', next_ms or -1} end

redis.call('SREM', stalled, '') -- frees nothing, but lets the script finish over maxmemory
queue.running = queue.running - #spots
for i = #jobs, 1, -1 do -- the oldest job runs next
  local id, scheduler = jobs[i][1], jobs[i][2]
  local is_scheduled = scheduler ~= '' and (redis.call('ZSCORE', repeat_, scheduler) or redis.call('EXISTS', repeat_ .. ':' .. scheduler) == 1)
  if redis.call('HINCRBY', p .. id, 'stc', 1) > 1 and not is_scheduled then
    redis.call('HSET', p .. id, 'defa', 'job stalled more than allowable limit')
  end
  add_ready(queue, id, 0, true)
end
remove_at(active, length, spots, 0)
for _, job in ipairs(jobs) do
  redis.call('SREM', stalled, job[1])
  add_event(queue, 'waiting', 'jobId', job[1], 'prev', 'active')
  add_event(queue, 'stalled', 'jobId', job[1])
end
return {'moved', #spots, #jobs, 0, #spots == limit and 0 or next_ms or -1}
