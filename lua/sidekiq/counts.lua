-- What a queue holds at one instant.
--
-- Of a set of more than 200 jobs, of all queues, a sample is looked at, and the rest are taken to be like it: `schedule_exact` is false
-- then, `schedule_of` is how many stand there. Of more than 300 processes, or 3000 running jobs, the rest are not counted: `work_exact` is
-- false then. `expired` are jobs that a process holds which has not beaten for 20 s, `oldest_ms` is the age of the job that is next,
-- `due_ms` the next instant in `schedule` and `retry`, -1 for none.
-- `processed` and `failed` count all queues: they are empty unless this is the only one.
--
-- derived  <prefix><identity>
--          <prefix><identity>:work
--          <prefix><identity>:workers
-- KEYS     schedule        zset    job by due (s)
--          retry           zset    job by due (s)
--          queue           list    jobs, the last one is next
--          dead            zset    job by when it died (s)
--          processes       set     identities of processes
--          queues          set     names of queues
--          stat_processed  string  how many runs ended
--          stat_failed     string  how many of them failed
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          prefix   str  before all keys: the namespace and a colon, or nothing
-- returns  counted  (now_ms int, schedule int, retry int, dead int, schedule_exact bool, retry_exact bool, dead_exact bool,
--                   work_exact bool, schedule_of int, retry_of int, dead_of int, queue int, work int, expired int, workers int, due_ms int,
--                   overdue int, oldest_ms int, processed str, failed str)
local schedule, retry, queue, dead, processes, queues, stat_processed, stat_failed =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
-- block: clock, sidekiq_prefix
if #ARGV < 1 or #ARGV[1] > 15 or string.find(ARGV[1], '%D') then
  return redis.error_reply('ERR now_ms is a whole number; nothing was changed')
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
if #ARGV < 2 then return redis.error_reply('ERR it takes a prefix, which may be empty; nothing was changed') end
local prefix = ARGV[2]
-- end
local only = string.sub(queue, #prefix + 7)
-- block: sidekiq_instant, sidekiq_queue_of, sidekiq_processes, sidekiq_held_keys, sidekiq_spread, sidekiq_crew, sidekiq_oldest
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
local cards, looked, number, has_others = {0, 0, 0}, {0, 0, 0}, {{}, {}, {}}, false
local next_due, overdue = {}, {}
for at, key in ipairs({schedule, retry, dead}) do
  local card = redis.pcall('ZCARD', key)
  cards[at] = type(card) == 'number' and card or 0
  local stretches = {{0, math.min(cards[at], 200) - 1}}
  if cards[at] > 200 then
    stretches[1][2] = 63
    for i = 1, 4 do
      local from = 64 + math.floor((cards[at] - 96) * i / 4)
      stretches[#stretches + 1] = {from, from + 31}
    end
  end
  for _, stretch in ipairs(cards[at] > 0 and stretches or {}) do
    local found = redis.call('ZRANGE', key, stretch[1], stretch[2], 'WITHSCORES')
    looked[at] = looked[at] + #found / 2
    for i = 1, #found, 2 do
      local name = queue_of(found[i])
      local is_other = only and name ~= only
      has_others = has_others or is_other
      if not is_other then number[at][name] = (number[at][name] or 0) + 1 end
      if at < 3 and not is_other then
        local due_ms = at_ms(found[i + 1])
        if due_ms >= 0 and due_ms <= now_ms then overdue[name] = (overdue[name] or 0) + 1 end
        if due_ms >= 0 and due_ms < (next_due[name] or math.huge) then next_due[name] = due_ms end
      end
    end
  end
end
local function shares(name) -- how many there are by the share of the sample, and whether that is all, of each of the three
  local found = {}
  for at = 1, 3 do
    local is_all, met = looked[at] >= cards[at], number[at][name] or 0
    found[at], found[at + 3] = is_all and met or math.floor(met * cards[at] / looked[at] + 0.5), is_all and 1 or 0
  end
  return unpack(found)
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
local function last_time(text, named) -- a client writes the times behind the arguments, so the last of a name is the job's own
  local from, last = 1, nil
  while from do
    local _, stop = string.find(text, named, from, true)
    last, from = stop or last, stop and stop + 1
  end
  return last and string.match(text, '^ ?(%d+%.?%d*)', last + 1)
end
local function oldest_ms(list, length) -- -1 for none, and where its text does not tell
  local next_job = length > 0 and redis.call('LINDEX', list, -1) or ''
  local ending = string.sub(next_job, -4096)
  local since_ms = at_ms(last_time(ending, '"enqueued_at":') or last_time(ending, '"created_at":'))
  return since_ms >= 0 and math.max(0, now_ms - since_ms) or -1
end
-- end
local length = redis.call('LLEN', queue)
local others = redis.pcall('SCARD', queues)
others = type(others) == 'number' and others - redis.call('SISMEMBER', queues, only) or 1
local is_alone = others == 0 and not has_others and not has_others_at_work
local function counter(key)
  local value = is_alone and redis.pcall('GET', key) or ''
  return type(value) == 'string' and value or ''
end
local of_schedule, of_retry, of_dead, all_schedule, all_retry, all_dead = shares(only)
return {
  'counted', now_ms, of_schedule, of_retry, of_dead, all_schedule, all_retry, all_dead, work_exact, cards[1], cards[2], cards[3],
  length, work[only] or 0, expired[only] or 0, workers[only] or 0, next_due[only] or -1, overdue[only] or 0,
  oldest_ms(queue, length), counter(stat_processed), counter(stat_failed),
}
