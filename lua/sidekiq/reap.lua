-- Reap dead processes: their jobs of this queue become the next ones, oldest first.
--
-- Sidekiq without its paid edition loses these jobs: Redis deletes the only copy one minute after the last heartbeat. A
-- process is dead after 30 s without a heartbeat; it sends one every 10 s. The bytes of the jobs do not change. A job
-- that its process pushed back before it died is not pushed twice. A process without further jobs is removed from the
-- list of processes. `next_ms` is the time until the next process that holds jobs may be dead, -1 if there is none.
--
-- moves    work -> queue
-- writes   queues processes
-- derived  <prefix><identity>
--          <prefix><identity>:work
--          <prefix><identity>:workers
-- KEYS     processes queue queues
-- ARGV     queue    str  its name
--          now_ms?  int  a test's clock; the server's when empty
--          prefix?  str  the prefix of all keys: the namespace and a colon
--          limit    int  how many at most, 1 to 1000
-- returns  moved  (moved int, ready int, dead int, next_ms int)  reaped
--          empty  (next_ms int)  no dead process holds a job
-- include: keys
if #ARGV < 4 then return redis.error_reply('ERR it takes 4 arguments; nothing was changed') end
-- include: args(prefix limit)
if not string.find(ARGV[4], '^%d+$') or limit < 1 or limit > 1000 then
  return redis.error_reply('ERR limit is 1 to 1000; nothing was changed')
end
local scalars, columns = 3, 1
-- include: key_types(queue queues), batch, clock_argv2, held
local plan, finished, next_ms = {}, {}, nil
for _, identity in ipairs(redis.call('SSCAN', processes, 0, 'COUNT', 1000)[2]) do
  local silent = silent_ms(identity)
  local key, jobs = held(identity)
  local ours = 0
  for _, job in ipairs(jobs) do
    if job[2] == ARGV[1] then ours = ours + 1 end
  end
  if ours > 0 and silent and silent <= SILENT_MS then
    local wait_ms = math.max(1, math.ceil(SILENT_MS - silent) + 1)
    next_ms = math.min(next_ms or wait_ms, wait_ms)
  elseif ours > 0 then
    for _, job in ipairs(jobs) do
      if job[2] == ARGV[1] then plan[#plan + 1] = {key, job[1], job[3], job[4]} end
    end
    if ours == #jobs then finished[#finished + 1] = {identity, key} end
  end
end
table.sort(plan, function(a, b) return a[4] < b[4] end)
if #plan == 0 then return {'empty', next_ms or -1} end
local back = math.min(limit, #plan)

redis.call('LTRIM', queue, 0, -1) -- removes nothing, but lets the drain continue over maxmemory
redis.call('SADD', queues, ARGV[1])
for i = back, 1, -1 do -- The oldest job is pushed last, so that it is the next one.
  local key, tid, payload = unpack(plan[i])
  if not redis.call('LPOS', queue, payload, 'RANK', -1, 'MAXLEN', 1000) then redis.call('RPUSH', queue, payload) end
  redis.call('HDEL', key, tid)
end
for _, process in ipairs(finished) do
  if redis.call('EXISTS', process[2]) == 0 then
    redis.call('DEL', prefix .. process[1])
    redis.call('SREM', processes, process[1])
  end
end
return {'moved', back, back, 0, back < #plan and 0 or next_ms or -1}
