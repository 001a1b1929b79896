-- Release jobs that a dead process held: they are the next ones, byte for byte.
--
-- From `work` while their payload stands there, which is for a minute after the last beat; from `lost` with the bytes that were seen
-- before. A process that beat within 30 s keeps its jobs: stop it, and Sidekiq pushes them back itself.
--
-- moves    work lost -> queue
-- writes   queues
-- derived  <prefix><identity>
--          <prefix><identity>:work
--          <prefix><identity>:workers
-- KEYS     processes (work lost)   set   identities of processes: host:pid:nonce
--          queue                   list  jobs, the next one last
--          queues                  set   names of all queues
-- ARGV     queue     str   its name
--          now_ms?   int   a test's clock; the server's when empty
--          prefix?   str   before all keys: the namespace and a colon
--          place     str   work or lost
--          each      (member bytes, token str, worker str)
-- returns each  moved   released
--               beats   its process beats: it runs, or may still be pushed back; stop the process instead
--               queued  it stands in the queue again
--               gone    its process does not hold it any more
local processes, queue, queues = KEYS[1], KEYS[2], KEYS[3]
if #ARGV < 4 then return redis.error_reply('ERR it takes 4 arguments and rows; nothing was changed') end
local prefix, place = ARGV[3], ARGV[4]
if place ~= 'work' and place ~= 'lost' then
  return redis.error_reply('ERR the place is work or lost; nothing was changed')
end
local scalars, columns = 4, 3
redis.call('SCARD', processes)
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
local words, plan, seen = {}, {}, {}
for at = 5, #ARGV, columns do
  local member, token, worker = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local silent, stands = silent_ms(worker), nil
  local key, jobs = held(worker)
  for _, job in ipairs(jobs) do
    if worker .. ' ' .. job[1] == token and job[2] == ARGV[1] and job[3] == member then stands = job[1] end
  end
  if silent and silent <= SILENT_MS then
    words[#words + 1] = (stands or place == 'lost') and 'beats' or 'gone'
  elseif seen[token .. member] or place == 'work' and not stands or place == 'lost' and not stands and (silent or #jobs > 0) then
    words[#words + 1] = 'gone'
  elseif redis.call('LPOS', queue, member, 'RANK', -1, 'MAXLEN', 1000) then
    words[#words + 1] = 'queued'
  else
    words[#words + 1], seen[token .. member] = 'moved', true
    plan[#plan + 1] = {key, stands, member}
  end
end
if #plan == 0 then return words end

redis.call('LTRIM', queue, 0, -1) -- frees nothing: a drain may go on over maxmemory
redis.call('SADD', queues, ARGV[1])
for i = #plan, 1, -1 do -- the first row is the next job
  redis.call('RPUSH', queue, plan[i][3])
  if plan[i][2] then redis.call('HDEL', plan[i][1], plan[i][2]) end
end
return words
