-- Reap what dead processes held of this queue: their jobs are the next ones, the oldest first.
--
-- Sidekiq without its paid edition loses them: a minute after the last beat their only trace vanishes. A process is dead when it has
-- not beaten for 30 s; it beats every 10 s. Payloads go back byte for byte. One that its process pushed back itself before it died
-- is not doubled. A process that holds nothing any more is taken off the list of processes. `next_ms` is the time until the next
-- process that holds jobs may be dead, -1 without one.
--
-- moves    work -> queue
-- writes   queues processes
-- derived  <prefix><identity>
--          <prefix><identity>:work
--          <prefix><identity>:workers
-- KEYS     processes (work)  set   identities of processes: host:pid:nonce
--          queue             list  jobs, the next one last
--          queues            set   names of all queues
-- ARGV     queue    str  its name
--          now_ms?  int  a test's clock; the server's when empty
--          prefix?  str  before all keys: the namespace and a colon
--          limit    int  how many at most, 1 to 1000
-- returns  moved  (moved int, ready int, dead int, next_ms int)  reaped
--          empty  (next_ms int)  no dead process holds any
local processes, queue, queues = KEYS[1], KEYS[2], KEYS[3]
if #ARGV < 4 then return redis.error_reply('ERR it takes 4 arguments; nothing was changed') end
local prefix, limit = ARGV[3], tonumber(ARGV[4])
if not string.find(ARGV[4], '^%d+$') or limit < 1 or limit > 1000 then
  return redis.error_reply('ERR limit is 1 to 1000; nothing was changed')
end
local scalars, columns = 3, 1
redis.call('LLEN', queue)
redis.call('SCARD', queues)
-- block: sidekiq_batch, sidekiq_now, sidekiq_held
local rows = (#ARGV - scalars) / columns
if rows < 1 or rows > 1000 or rows ~= math.floor(rows) then
  return redis.error_reply('ERR it takes 1 to 1000 rows, each with all of its columns; nothing was changed')
end
if ARGV[1] == '' or string.sub(queue, -#ARGV[1] - 6) ~= 'queue:' .. ARGV[1] then
  return redis.error_reply('ERR the list of a queue is queue:NAME, and the first argument is the name; nothing was changed')
end
if #ARGV[2] > 13 or string.find(ARGV[2], '%D') then
  return redis.error_reply('ERR now_ms is a whole number; nothing was changed')
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[2]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local SILENT_MS = 30000
local function silent_ms(identity)
  local beat = redis.pcall('HGET', prefix .. identity, 'beat')
  return type(beat) == 'string' and tonumber(beat) and now_ms - tonumber(beat) * 1000 or nil
end
local function held(identity)
  local key, flat = prefix .. identity .. ':work', nil -- sidekiq/launcher.rb 7 and later; `:workers` before
  for _, each in ipairs({key, prefix .. identity .. ':workers'}) do
    local found = redis.pcall('HGETALL', each)
    if not found.err and #found > 0 and not flat then key, flat = each, found end
  end
  local jobs = {}
  for i = 1, #(flat or {}), 2 do
    local is_json, told = pcall(cjson.decode, flat[i + 1])
    if is_json and type(told) == 'table' and type(told.queue) == 'string' and type(told.payload) == 'string' then
      jobs[#jobs + 1] = {flat[i], told.queue, told.payload, tonumber(told.run_at) or 0}
    end
  end
  return key, jobs
end
-- end
local plan, done, next_ms = {}, {}, -1
for _, identity in ipairs(redis.call('SSCAN', processes, 0, 'COUNT', 1000)[2]) do
  local silent = silent_ms(identity)
  local key, jobs = held(identity)
  local ours = 0
  for _, job in ipairs(jobs) do
    if job[2] == ARGV[1] then ours = ours + 1 end
  end
  if ours > 0 and silent and silent <= SILENT_MS then
    local wait_ms = math.max(1, math.ceil(SILENT_MS - silent) + 1)
    if next_ms < 0 or wait_ms < next_ms then next_ms = wait_ms end
  elseif ours > 0 then
    for _, job in ipairs(jobs) do
      if job[2] == ARGV[1] then plan[#plan + 1] = {key, job[1], job[3], job[4]} end
    end
    if ours == #jobs then done[#done + 1] = {identity, key} end
  end
end
table.sort(plan, function(a, b) return a[4] < b[4] end)
if #plan == 0 then return {'empty', next_ms} end
local back = math.min(limit, #plan)

redis.call('LTRIM', queue, 0, -1) -- frees nothing: a drain may go on over maxmemory
redis.call('SADD', queues, ARGV[1])
for i = back, 1, -1 do -- the oldest is pushed last: it is the next one
  local key, tid, payload = unpack(plan[i])
  if not redis.call('LPOS', queue, payload, 'RANK', -1, 'MAXLEN', 1000) then redis.call('RPUSH', queue, payload) end
  redis.call('HDEL', key, tid)
end
for _, process in ipairs(done) do
  if redis.call('EXISTS', process[2]) == 0 then
    redis.call('DEL', prefix .. process[1])
    redis.call('SREM', processes, process[1])
  end
end
return {'moved', back, back, 0, back < #plan and 0 or next_ms}
