-- Find problems of a BullMQ queue: a resume that would lose jobs, jobs that no worker finds, runs without a worker,
-- jobs that ran twice or can never run, ids without a hash, stopped schedulers, keys that block new jobs, parents that wait for
-- missing children, jobs in no place, jobs that are overtaken for ever, and jobs that are kept without a limit.
--
-- The script reads at most the first 8 and the last 8 ids of each place, 20 children of each of 16 waiting parents, 100 schedulers, the
-- last 100 events, and, among the ids that BullMQ counts up, the last 20 and the 80 from `from_id` down. `hash` is the key of the example's
-- hash. `word` names a lock, a child, a scheduler, a number or a priority; if another program uses the key, it is the type of the key.
-- `other` is a second key or number, `seconds` the duration. `next_id` is the `from_id` of the next call.
--
-- derived  <prefix>:<queue>:<id>
--          <prefix>:<queue>:<id>:lock
--          <prefix>:<queue>:<id>:dependencies
--          <prefix>:<queue>:de:<word>
--          <prefix>:<queue>:repeat:<word>
-- KEYS     delayed waiting_children prioritized wait paused active completed failed meta id
--          limiter  string  number of runs in the window of the rate limit
--          repeat events pc marker stalled metrics_completed metrics_failed
-- ARGV     now_ms?   int  a test's clock; the server's when empty
--          p         str  prefix of all keys of the queue: bull:mail:
--          from_id?  int  where the search for jobs in no place continues; empty: from the start
-- returns  looked  (looked int, next_id int)
--                  rows (kind str, key str, id bytes, number int, hash str, word str, other str, seconds int)
if #ARGV < 3 or #ARGV[3] > 15 or string.find(ARGV[3], '%D') then
  return redis.error_reply('ERR from_id is a whole number; nothing was changed')
end
-- include: add_finding_row, keys, opening, read, type_of, ends_of
local looked = 0
local function add_finding(kind, key, job, number, word, other, seconds)
  add_finding_row(kind, key, job, number, job ~= '' and p .. job or '', string.sub(word or '', 1, 1000), other or '', seconds or 0)
end
local function seconds_since(ms)
  return math.max(0, math.min(1e9, math.floor((now_ms - (tonumber(ms) or now_ms)) / 1000)))
end
local function is_json(key)
  local length = redis.call('HSTRLEN', key, 'data')
  if length == 0 or length > 4096 then return true end -- BullMQ reads data that is missing or empty as {}
  local data = redis.call('HGET', key, 'data')
  return (pcall(cjson.decode, data))
end

local zsets = {{'delayed', delayed}, {'waiting_children', waiting_children}, {'prioritized', prioritized}, {'completed', completed}, {'failed', failed}}
local lists = {{'wait', wait}, {'paused', paused}, {'active', active}}
local function read_or_report(command, key, ...) -- nil if the key has another type, which is then a finding
  local found = read(command, key, ...)
  if found == nil then add_finding('wrong_type:key', key, '', 1, type_of(key)) end
  return found
end
local function number_in(command, key)
  return read_or_report(command, key) or 0
end
local lengths = {}
for _, each in ipairs(zsets) do lengths[each[1]] = number_in('ZCARD', each[2]) end
for _, each in ipairs(lists) do lengths[each[1]] = number_in('LLEN', each[2]) end
local last_id, last_priority, runs = unpack(redis.call('MGET', id, pc, limiter)) -- MGET returns nil for a key of another type
if redis.call('EXISTS', id, pc, limiter) > (last_id and 1 or 0) + (last_priority and 1 or 0) + (runs and 1 or 0) then
  for _, key in ipairs({id, pc, limiter}) do number_in('STRLEN', key) end
end
local is_fitting = pcall(function() -- the single checks below are needed only if one key has another type
  redis.call('ZCARD', marker)
  redis.call('SCARD', stalled)
  redis.call('HLEN', metrics_completed)
  redis.call('HLEN', metrics_failed)
end)
if not is_fitting then
  for _, each in ipairs({{'ZCARD', marker}, {'SCARD', stalled}, {'HLEN', metrics_completed}, {'HLEN', metrics_failed}}) do
    number_in(unpack(each))
  end
end
local settings = read_or_report('HMGET', meta, 'paused', 'concurrency', 'max', 'version', 'duration') or {}
local ready = lengths.wait + lengths.paused + lengths.prioritized

if settings[1] and lengths.wait > 0 and lengths.paused > 0 then
  add_finding('mixed', paused, redis.call('LINDEX', wait, -1), lengths.wait, settings[4] or '', wait)
elseif not settings[1] and lengths.paused > 0 then
  add_finding('left_in_paused', paused, redis.call('LINDEX', paused, -1), lengths.paused, settings[4] or '', wait)
end
local concurrency, window_ms = tonumber(settings[2] or ''), redis.call('PTTL', limiter)
local most, per_ms = tonumber(settings[3] or ''), tonumber(settings[5] or '') -- a limit that is set in a worker is in no key
if not settings[1] and ready > 0 and concurrency and concurrency > 0 and lengths.active >= concurrency then
  add_finding('at_limit', meta, '', ready, tostring(lengths.active), '', math.min(1e9, concurrency))
elseif not settings[1] and ready > 0 and window_ms > (most and 0 or 60000) and (most or 1) <= (tonumber(runs or 0) or 0) then
  local kind = most and per_ms and per_ms >= 1000 and 'rate_limited:queue' or 'rate_limited'
  add_finding(kind, limiter, '', ready, string.format('%.0f', most or tonumber(runs)), string.format('%.0f', (per_ms or 0) / 1000),
    math.ceil(window_ms / 1000))
end

-- A job of low priority waits while others overtake it. The last member has the lowest priority, and the first one of that
-- priority has waited longest.
local function waits_ms(job)
  local added = redis.pcall('HGET', p .. job, 'timestamp')
  return now_ms - (tonumber(type(added) == 'string' and added or '') or now_ms)
end
if not settings[1] and ready > 1 and lengths.prioritized > 0 then
  local last = redis.call('ZRANGE', prioritized, -1, -1, 'WITHSCORES')
  local first_score = math.floor((tonumber(last[2]) or 0) / 4294967296) * 4294967296
  local oldest = redis.call('ZRANGEBYSCORE', prioritized, string.format('%.0f', first_score), '+inf', 'LIMIT', 0, 1)[1] or last[1]
  local newest_run = lengths.active > 0 and redis.call('LINDEX', active, 0) or redis.call('ZRANGE', completed, -1, -1)[1]
  local waited_ms = waits_ms(oldest)
  if waited_ms > 300000 and newest_run and waits_ms(newest_run) < waited_ms / 2 then
    local behind = redis.call('ZCOUNT', prioritized, '-inf', '(' .. string.format('%.0f', first_score)) + lengths.wait
    add_finding('starving', prioritized, oldest, 1, string.format('%.0f', first_score / 4294967296), tostring(behind),
      math.floor(waited_ms / 1000))
  end
end

local waits = {wait = true, paused = true, prioritized = true, delayed = true, active = true}
local function check_job(place, key, job, score)
  looked = looked + 1
  local hash = p .. job
  local known = redis.pcall('HMGET', hash, 'name', 'stc', 'defa', 'processedOn', 'finishedOn')
  if known.err then return add_finding('wrong_type', hash, job, 1) end
  local is_held = place == 'active' and redis.call('EXISTS', hash .. ':lock') == 1
  if not known[1] then
    return add_finding(place == 'active' and 'ghost_active' or 'ghost', key, job, 1)
  end
  local stalls = tonumber(known[2] or '') or 0
  local is_readable = not waits[place] or is_json(hash)
  local is_poison = not is_readable or waits[place] and known[3] and stalls > 2
  if is_poison then
    local refused = is_readable and 'it stops whoever runs it' or 'its data is no JSON'
    local often = stalls == 1 and ' and stalled once' or stalls > 1 and ' and stalled ' .. stalls .. ' times' or ''
    add_finding(place == 'active' and 'poison_active' or 'poison', key, job, 1, refused .. often)
  elseif place == 'active' and not is_held then
    add_finding('stalled', key, job, 1, '', '', seconds_since(known[4]))
  end
  local is_recent = place == 'completed' and now_ms - (tonumber(known[5] or '') or 0) < 3600000
  local is_dead = place == 'failed' and now_ms - (tonumber(known[5] or '') or 0) < 86400000
  if stalls > 1 and not is_poison and (is_dead or waits[place]) then
    add_finding('interrupted', key, job, 1, string.format('%.0f', stalls))
  elseif stalls > 0 and (is_held or is_recent) then add_finding('doubled', key, job, 1, tostring(stalls)) end
  if place == 'delayed' and (score < 4096e11 or score >= 4096e14) then add_finding('mixed_units', key, job, 1) end
end
for _, zset in ipairs(zsets) do
  local found = lengths[zset[1]] > 0 and ends_of(zset[2], 'ZRANGE', lengths[zset[1]], 'WITHSCORES') or {}
  for i = 1, #found, 2 do check_job(zset[1], zset[2], found[i], tonumber(found[i + 1])) end
end
for _, list in ipairs(lists) do
  for _, job in ipairs(lengths[list[1]] > 0 and ends_of(list[2], 'LRANGE', lengths[list[1]]) or {}) do check_job(list[1], list[2], job) end
end

for _, job in ipairs(lengths.waiting_children > 0 and ends_of(waiting_children, 'ZRANGE', lengths.waiting_children) or {}) do
  local dependencies = p .. job .. ':dependencies'
  local children = redis.pcall('SSCAN', dependencies, 0, 'COUNT', 20)
  children = children.err and {} or children[2]
  if #children == 0 and redis.call('EXISTS', dependencies) == 0 then add_finding('parent_free', waiting_children, job, 1, '', p) end
  for i = 1, math.min(20, #children) do
    local child = redis.pcall('HMGET', children[i], 'name', 'failedReason', 'finishedOn')
    looked = looked + 1
    if not child.err and not child[1] then
      add_finding('parent_of_none', waiting_children, job, 1, children[i], dependencies)
      break
    elseif not child.err and child[2] and child[3] then
      add_finding('parent_of_failed', waiting_children, job, 1, children[i], dependencies, seconds_since(child[3]))
      break
    end
  end
end

local planned = read_or_report('ZRANGE', repeat_, 0, 99, 'WITHSCORES') or {}
for i = 1, #planned, 2 do
  looked = looked + 1
  local key, next_ms = repeat_ .. ':' .. planned[i], tonumber(planned[i + 1]) or 0
  local rule = redis.pcall('HMGET', key, 'limit', 'ic', 'endDate')
  if rule.err then rule = {} end
  local limit, ends_ms = tonumber(rule[1] or ''), tonumber(rule[3] or '')
  local is_over = limit and (tonumber(rule[2] or '') or 0) >= limit or ends_ms and ends_ms < now_ms
  local job = redis.pcall('HMGET', key .. ':' .. string.format('%.0f', next_ms), 'name', 'finishedOn')
  if not is_over and not job.err and (not job[1] or job[2]) then
    add_finding('scheduler_stopped', repeat_, '', 1, planned[i], key, seconds_since(next_ms))
  end
end

local seen = {}
local happened = read_or_report('XREVRANGE', events, '+', '-', 'COUNT', 100) or {}
for i = 1, #happened do
  local fields, values = happened[i][2], {}
  for n = 1, #fields, 2 do values[fields[n]] = fields[n + 1] end
  local word = values.event == 'deduplicated' and values.deduplicationId or values.event == 'debounced' and values.debounceId
  if word and not seen[word] then
    seen[word], looked = true, looked + 1
    local dedup_holder = redis.pcall('GET', p .. 'de:' .. word)
    if type(dedup_holder) == 'string' and redis.call('EXISTS', p .. dedup_holder) == 0 then
      add_finding('stale_dedup', p .. 'de:' .. word, '', 1, word, dedup_holder, seconds_since(string.match(happened[i][1], '^%d+')))
    end
  end
end

last_id = tonumber(last_id or '') or 0
local from_id = math.min(last_id, tonumber(ARGV[3]) or last_id - 20)
local in_lists
local function current(job, is_over) -- in a list that is too long to search, the job may be present
  if read('ZSCORE', failed, job) or read('ZSCORE', completed, job) then return true end
  if is_over then return false end
  if read('ZSCORE', delayed, job) or read('ZSCORE', prioritized, job) or read('ZSCORE', waiting_children, job) then return true end
  if lengths.wait + lengths.paused + lengths.active > 2000 then return true end
  if not in_lists then
    in_lists = {}
    for _, list in ipairs(lists) do
      for _, each in ipairs(read('LRANGE', list[2], 0, -1) or {}) do in_lists[each] = true end
    end
  end
  return in_lists[job]
end
local function look_for(number)
  local job = string.format('%.0f', number)
  local known = redis.pcall('HMGET', p .. job, 'name', 'finishedOn')
  looked = looked + 1
  if not known.err and known[1] and not current(job, known[2]) then
    add_finding(known[2] and 'orphan_ended' or 'orphan', '', job, 1, '', p)
  end
end
for number = last_id, math.max(1, last_id - 19), -1 do look_for(number) end
for number = math.min(from_id, last_id - 20), math.max(1, from_id - 79), -1 do look_for(number) end
local next_id = from_id - 80 < 1 and last_id or from_id - 80

for _, kept in ipairs({{completed, lengths.completed}, {failed, lengths.failed}}) do
  if kept[2] >= 10000 then
    local first = redis.call('ZRANGE', kept[1], 0, 0, 'WITHSCORES')
    add_finding('kept', kept[1], first[1], kept[2], kept[1] == completed and 'completed' or 'failed', '', seconds_since(first[2]))
  end
end
return {'looked', looked, math.max(0, next_id), rows}
