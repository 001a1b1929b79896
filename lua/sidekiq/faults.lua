-- Find what goes wrong around a queue of Sidekiq: jobs that a killed process holds, due jobs that nobody enqueues, a queue that nobody
-- works on, jobs that cannot be read or that vanish when they fail, a full list of the dead, names of other types.
--
-- At most the first 100 jobs of `schedule` and of `retry`, the last 20 of `dead`, 10 at each end of the queue, and 300 processes are looked
-- at. What is about all queues is told of one of them, the first by name; jobs that nobody can read are those of `default`.
-- `seconds` is how long it is so, or how long it lasts; `word` a process, a place or a type; `until_ms` from
-- when on nothing can be done, `name` the queue.
--
-- derived  <prefix><identity>
--          <prefix><identity>:work
--          <prefix><identity>:workers
-- KEYS     schedule   zset  job by due (s)
--          retry      zset  job by due (s)
--          queue      list  jobs, the last one is next
--          dead       zset  job by when it died (s)
--          queues     set   names of queues
--          processes  set   identities of processes
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          prefix   str  before all keys: the namespace and a colon, or nothing
-- returns  looked  (looked int)
--                   rows (kind str, key str, id bytes, number int, word str, seconds int, since_ms? int, until_ms? int, name str)
local schedule, retry, queue, dead, queues, processes = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
-- block: clock, sidekiq_prefix, sidekiq_instant, sidekiq_queue_of, sidekiq_processes, sidekiq_held_keys, sidekiq_works
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
local function each_work(identity, look) -- look(tid, entry as it stands, key)
  return each_held_key(identity, function(key)
    local held = redis.call('HGETALL', key)
    for i = 1, #held, 2 do look(held[i], held[i + 1], key) end
  end)
end
-- end
local name, now_s = string.sub(queue, #prefix + 7), now_ms / 1000
local looked, rows, row_at = 0, {}, {}
local function met(kind, key, id, number, word, seconds, since_ms, until_ms) -- the first of a kind and a key is the example
  local known = row_at[kind .. key]
  if known then
    rows[known][4] = rows[known][4] + number
  else
    local lasting = math.max(0, math.min(1e9, math.floor(seconds or 0)))
    rows[#rows + 1] = {kind, key, string.sub(id, 1, 1000), number, word or '', lasting, since_ms or '', until_ms or '', name}
    row_at[kind .. key] = #rows
  end
end
-- block: type_of
local function type_of(key) -- a table, or a string where Redis is played
  local found = redis.call('TYPE', key)
  return type(found) == 'table' and found.ok or found
end
-- end
local function jid_of(text)
  return #text <= 1048576 and string.match(text, '"jid": ?"([^"\\]*)"') or ''
end

local first, is_fitting, wrong = nil, {}, {}
for _, each in ipairs({{'schedule', schedule, 'zset'}, {'retry', retry, 'zset'}, {'dead', dead, 'zset'}, {'queues', queues, 'set'},
  {'processes', processes, 'set'}, {'queue', queue, 'list'}}) do
  local kind = type_of(each[2])
  is_fitting[each[1]] = kind == each[3]
  if kind ~= each[3] and kind ~= 'none' then wrong[#wrong + 1] = {each[1], each[2], kind} end
end
if is_fitting.queues then
  local found = redis.call('SSCAN', queues, 0, 'COUNT', 100)[2]
  for _, each in ipairs(found) do
    if not first or each < first then first = each end
  end
  if redis.call('SISMEMBER', queues, 'default') == 1 then first = 'default' end
end
local speaks_for_all = first == nil or first == name
for _, each in ipairs(wrong) do
  if speaks_for_all or each[1] == 'queue' then met('wrong_type', each[2], '', 1, each[3]) end
end

local consumers, alive, stale, example = 0, 0, 0, nil
each_process(function(identity, info, age_ms)
  looked = looked + 1
  if not info then
    stale, example = stale + 1, example or identity
  elseif age_ms >= 0 and age_ms <= 20000 then
    alive = alive + 1
    local is_read, told = pcall(cjson.decode, info)
    local is_ours = false
    told = is_read and type(told) == 'table' and told or {}
    for _, each in ipairs(type(told.queues) == 'table' and told.queues or {}) do is_ours = is_ours or each == name end
    for _, capsule in pairs(type(told.capsules) == 'table' and told.capsules or {}) do
      local weights = type(capsule) == 'table' and capsule.weights
      is_ours = is_ours or type(weights) == 'table' and weights[name] ~= nil
    end
    if is_ours then consumers = consumers + 1 end
  end
  if age_ms >= 0 and age_ms <= 20000 then return end
  each_work(identity, function(_, entry, key)
    if queue_of(entry) ~= name then return end
    local left_ms = redis.call('PTTL', key)
    local jid = string.match(entry, '\\"jid\\": ?\\"([^"\\]*)\\"') or ''
    local since_ms = age_ms >= 0 and now_ms - age_ms or nil
    met('lost_on_kill', key, jid, 1, identity, math.max(0, left_ms) / 1000, since_ms, left_ms >= 0 and now_ms + left_ms or nil)
  end)
end)
if stale > 0 and speaks_for_all then met('stale_process', processes, '', stale, example) end

local function is_read(text) -- queue_of looks for a name, and finds it in JSON that is torn, too
  return #text > 4096 and string.sub(text, -1) == '}' or #text <= 4096 and pcall(cjson.decode, text)
end
local function judge(place, key, text)
  looked = looked + 1
  local owner, is_job = queue_of(text)
  is_job = is_job and is_read(text)
  if owner ~= name and place ~= 'queue' then return false end
  if not is_job then
    met(place == 'dead' and 'raw_bytes' or place == 'queue' and 'unreadable' or 'undecodable', key, '', 1, place)
  elseif place ~= 'dead' and #text <= 65536 and not string.find(text, '"retry":', 1, true) and not string.find(text, '"retry" :', 1, true) then
    met('no_retry', key, jid_of(text), 1)
  end
  return is_job
end
for _, each in ipairs({{'schedule', schedule}, {'retry', retry}}) do
  local found = is_fitting[each[1]] and redis.call('ZRANGE', each[2], 0, 99, 'WITHSCORES') or {}
  for i = 1, #found, 2 do
    local is_ours = judge(each[1], each[2], found[i])
    local due_s = tonumber(found[i + 1])
    if is_ours and due_s and now_s - due_s > 60 then
      met(alive > 0 and 'poller_behind' or 'nobody_polls', each[2], jid_of(found[i]), 1, '', now_s - due_s, at_ms(due_s))
    end
  end
  local far = is_fitting[each[1]] and redis.call('ZRANGEBYSCORE', each[2], '1e11', '(inf', 'LIMIT', 0, 20) or {}
  for _, text in ipairs(far) do
    if queue_of(text) == name then met('milliseconds', each[2], jid_of(text), 1) end
  end
end
if is_fitting.dead then
  for _, text in ipairs(redis.call('ZRANGE', dead, -20, -1)) do judge('dead', dead, text) end
  local card = redis.call('ZCARD', dead)
  local oldest = redis.call('ZRANGE', dead, 0, 0, 'WITHSCORES')
  if speaks_for_all and card >= 9500 then met('dead_full', dead, jid_of(oldest[1] or ''), card) end
  local soon = redis.call('ZCOUNT', dead, '(' .. string.format('%.3f', now_s - 180 * 86400), string.format('%.3f', now_s - 173 * 86400))
  if speaks_for_all and soon > 0 then met('dead_old', dead, jid_of(oldest[1] or ''), soon) end
end
local length = is_fitting.queue and redis.call('LLEN', queue) or 0
if length > 0 then
  for _, range in ipairs({{-10, -1}, {0, math.min(9, length - 11)}}) do
    for _, text in ipairs(range[2] ~= -1 and range[2] < 0 and {} or redis.call('LRANGE', queue, range[1], range[2])) do
      judge('queue', queue, text)
    end
  end
  if consumers == 0 and alive > 0 then met('no_consumer', queue, '', length) end
  if is_fitting.queues and redis.call('SISMEMBER', queues, name) == 0 then met('unlisted', queues, '', length) end
end
return {'looked', looked, rows}
