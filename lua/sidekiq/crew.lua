-- What processes hold of each queue, and how many of them work on it.
--
-- `expired` are jobs that a process holds which has not beaten for 20 s. A queue without a row has none. Of more than 300 processes, or 3000
-- running jobs, the rest are not counted: `work_exact` is false then.
--
-- derived  <prefix><identity>
--          <prefix><identity>:work
--          <prefix><identity>:workers
-- KEYS     processes  set  identities of processes
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          prefix   str  before all keys: the namespace and a colon, or nothing
-- returns  counted  (now_ms int, work_exact bool)  rows (queue str, work int, expired int, workers int)
local processes = KEYS[1]
local only = nil
-- luacheck: ignore 231 (`has_others_at_work` of the block is for `counts`)
-- block: clock, sidekiq_prefix, sidekiq_instant, sidekiq_queue_of, sidekiq_processes, sidekiq_held_keys, sidekiq_crew
if #ARGV < 1 or #ARGV[1] > 15 or string.find(ARGV[1], '%D') then
  return redis.error_reply('ERR now_ms is a whole number; nothing was changed')
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
if #ARGV < 2 then return redis.error_reply('ERR it takes a prefix, which may be empty; nothing was changed') end
local prefix = ARGV[2]
local function at_ms(value) -- -1 for what is no instant
  local at = tonumber(value)
  if not at or at ~= at or at < 0 or at > 9e15 then return -1 end
  return math.floor((at < 1e11 and at * 1000 or at) + 0.5)
end
local function queue_of(text) -- the queue, and whether it is a job
  local named = '"queue":'
  local start = #text > 65536 and string.sub(text, 1, 4096) or text
  local at, last = string.find(start, named, 1, true)
  local is_plain
  if #text > 65536 then
    is_plain = at and not string.find(string.sub(start, 2, at), '[%[{]')
  else
    is_plain = at and not string.find(start, named, last + 1, true)
  end
  local name = is_plain and string.match(start, '^ ?"([^"\\]+)"', last + 1)
  if name then return name, true end
  local is_read, job = pcall(cjson.decode, text)
  if not is_read or type(job) ~= 'table' or job[1] ~= nil then return 'default', false end
  return type(job.queue) == 'string' and job.queue ~= '' and job.queue or 'default', true
end
local function each_process(look) -- look(identity, info or nil, age of the beat in ms or -1)
  local found = redis.pcall('SSCAN', processes, 0, 'COUNT', 300)
  for at = 1, found.err and 0 or math.min(300, #found[2]) do
    local identity = found[2][at]
    local told = redis.pcall('HMGET', prefix .. identity, 'info', 'beat')
    local beat_ms = at_ms(told[2])
    look(identity, told[1] or nil, beat_ms >= 0 and math.max(0, now_ms - beat_ms) or -1)
  end
  return found.err ~= nil or (tostring(found[1]) == '0' and #found[2] <= 300)
end
local left = 3000
local function each_held_key(identity, look) -- look(key); Sidekiq 6 and older say `workers`
  local is_all = true
  for _, suffix in ipairs({':work', ':workers'}) do
    local key = prefix .. identity .. suffix
    local length = redis.pcall('HLEN', key)
    if type(length) == 'number' and length > left then
      is_all = false
    elseif type(length) == 'number' and length > 0 then
      left = left - length
      look(key)
    end
  end
  return is_all
end
local work, expired, workers, has_others_at_work = {}, {}, {}, false
local are_all_looked_at = true
local are_all_met = each_process(function(identity, info, age_ms)
  local is_late = age_ms < 0 or age_ms > 20000
  local is_read, told = pcall(cjson.decode, not is_late and info or '')
  if is_read and type(told) == 'table' then
    local named = {}
    for _, name in ipairs(type(told.queues) == 'table' and told.queues or {}) do named[name] = true end
    for _, capsule in pairs(type(told.capsules) == 'table' and told.capsules or {}) do
      local weights = type(capsule) == 'table' and capsule.weights
      for name in pairs(type(weights) == 'table' and weights or {}) do named[name] = true end
    end
    for name in pairs(named) do
      if not only or name == only then workers[name] = (workers[name] or 0) + 1 end
    end
  end
  local is_all = each_held_key(identity, function(key)
    for _, entry in ipairs(redis.call('HVALS', key)) do
      local name = queue_of(entry)
      if only and name ~= only then
        has_others_at_work = true
      else
        work[name] = (work[name] or 0) + 1
        if is_late then expired[name] = (expired[name] or 0) + 1 end
      end
    end
  end)
  are_all_looked_at = are_all_looked_at and is_all
end)
local work_exact = are_all_met and are_all_looked_at and 1 or 0
-- end
local rows = {}
for _, of in ipairs({work, workers}) do
  for queue in pairs(of) do
    if type(queue) == 'string' and (of == work or not work[queue]) then
      rows[#rows + 1] = {queue, work[queue] or 0, expired[queue] or 0, workers[queue] or 0}
    end
  end
end
return {'counted', now_ms, work_exact, rows}
