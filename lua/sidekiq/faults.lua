-- Find problems of a Sidekiq queue: jobs of a killed process, due jobs that no process enqueues, a queue without a
-- process, jobs that cannot be decoded or that will be lost when they fail, a full dead set, and keys of a wrong type.
--
-- At most the first 100 jobs of `schedule` and of `retry`, the last 20 of `dead`, 10 at each end of the queue, and 300
-- processes are read. A problem of all queues is reported for one of them: `default`, or the first by name. Jobs that
-- cannot be decoded belong to `default`. `seconds` is the age of the problem, or the time that is left. `word` is a
-- process, a place or a type. After `until_ms` the problem cannot be fixed. `name` is the queue.
--
-- derived  <prefix><identity>
--          <prefix><identity>:work
--          <prefix><identity>:workers
-- KEYS     schedule retry queue dead queues processes
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          prefix   str  the prefix of all keys: the namespace and a colon, or nothing
-- returns  looked  (looked int)
--                   rows (kind str, key str, id bytes, number int, word str, seconds int, since_ms? int, until_ms? int, name str)
-- include: keys, clock, prefix, instant, queue_of, processes, is_alive, works, process_queues, type_of
local name, now_s, read = string.sub(queue, #prefix + 7), now_ms / 1000, 0
-- include: add_finding
local function jid_of(text)
  return #text <= 1048576 and string.match(text, '"jid": ?"([^"\\]*)"') or ''
end

local first, has_type, wrong = nil, {}, {}
for _, place in ipairs({{'schedule', schedule, 'zset'}, {'retry', retry, 'zset'}, {'dead', dead, 'zset'}, {'queues', queues, 'set'},
  {'processes', processes, 'set'}, {'queue', queue, 'list'}}) do
  local kind = type_of(place[2])
  has_type[place[1]] = kind == place[3]
  if kind ~= place[3] and kind ~= 'none' then wrong[#wrong + 1] = {place[1], place[2], kind} end
end
if has_type.queues then
  local names = redis.call('SSCAN', queues, 0, 'COUNT', 100)[2]
  table.sort(names)
  first = redis.call('SISMEMBER', queues, 'default') == 1 and 'default' or names[1]
end
local reports_shared = first == nil or first == name -- Problems of all queues are reported once.
for _, place in ipairs(wrong) do
  if reports_shared or place[1] == 'queue' then add_finding('wrong_type', place[2], '', 1, place[3]) end
end

local WRONG_CLOCK_MS = 5000 -- a heartbeat and the life of its hash are written in one step
local consumers, alive, stale, example = 0, 0, 0, nil
local wrong_clocks, worst_ms, worst = 0, 0, ''
each_process(function(identity, info, age_ms, beat)
  read = read + 1
  if not info then
    stale, example = stale + 1, example or identity
  elseif is_alive(age_ms) then
    alive = alive + 1
    if process_queues(info)[name] then consumers = consumers + 1 end
    local beat_ms = at_ms(beat)
    local behind_ms = beat_ms ~= -1 and now_ms - age_ms - beat_ms or 0
    if math.abs(behind_ms) >= WRONG_CLOCK_MS then wrong_clocks = wrong_clocks + 1 end
    if math.abs(behind_ms) > math.abs(worst_ms) then worst_ms, worst = behind_ms, identity end
  end
  if is_alive(age_ms) then return end
  each_work(identity, function(_, entry, key)
    if queue_of(entry) ~= name then return end
    local left_ms = redis.call('PTTL', key)
    local jid = string.match(entry, '\\"jid\\": ?\\"([^"\\]*)\\"') or ''
    local since_ms = age_ms ~= -1 and now_ms - age_ms or nil
    add_finding('lost_on_kill', key, jid, 1, identity, math.max(0, left_ms) / 1000, since_ms, left_ms ~= -1 and now_ms + left_ms or nil)
  end)
end)
if wrong_clocks > 0 and reports_shared then
  local kind = worst_ms > 0 and 'worker_clock:behind' or 'worker_clock:ahead'
  add_finding(kind, prefix .. worst, '', wrong_clocks, worst, math.floor(math.abs(worst_ms) / 1000 + 0.5))
end
if stale > 0 and reports_shared then add_finding('stale_process', processes, '', stale, example) end

local function is_complete(text) -- `queue_of` also finds a queue in JSON that ends too early.
  return #text > 4096 and string.sub(text, -1) == '}' or #text <= 4096 and pcall(cjson.decode, text)
end
local function check_job(place, key, text)
  read = read + 1
  local owner, is_job = queue_of(text)
  is_job = is_job and is_complete(text)
  if owner ~= name and place ~= 'queue' then return false end
  if not is_job then
    add_finding(place == 'dead' and 'raw_bytes' or place == 'queue' and 'unreadable' or 'undecodable', key, '', 1, place)
  elseif place ~= 'dead' and #text <= 65536 and not string.find(text, '"retry":', 1, true) and not string.find(text, '"retry" :', 1, true) then
    add_finding('no_retry', key, jid_of(text), 1)
  end
  return is_job
end
for _, place in ipairs({{'schedule', schedule}, {'retry', retry}}) do
  local jobs = has_type[place[1]] and redis.call('ZRANGE', place[2], 0, 99, 'WITHSCORES') or {}
  for i = 1, #jobs, 2 do
    local is_ours = check_job(place[1], place[2], jobs[i])
    local due_s = tonumber(jobs[i + 1])
    if is_ours and due_s and now_s - due_s > (alive > 0 and 60 or 4) then
      local since = now_s - due_s > 60 and 'nobody_polls' or 'nobody_polls:soon'
      add_finding(alive > 0 and 'poller_behind' or since, place[2], jid_of(jobs[i]), 1, '', now_s - due_s, at_ms(due_s))
    end
  end
  local far = has_type[place[1]] and redis.call('ZRANGEBYSCORE', place[2], '1e11', '(inf', 'LIMIT', 0, 20) or {}
  for _, text in ipairs(far) do
    if queue_of(text) == name then add_finding('milliseconds', place[2], jid_of(text), 1) end
  end
end
if has_type.dead then
  for _, text in ipairs(redis.call('ZRANGE', dead, -20, -1)) do check_job('dead', dead, text) end
  local card = redis.call('ZCARD', dead)
  local oldest = redis.call('ZRANGE', dead, 0, 0, 'WITHSCORES')
  if reports_shared and card >= 9500 then add_finding('dead_full', dead, jid_of(oldest[1] or ''), card) end
  local soon = redis.call('ZCOUNT', dead, '(' .. string.format('%.3f', now_s - 180 * 86400), string.format('%.3f', now_s - 173 * 86400))
  if reports_shared and soon > 0 then add_finding('dead_old', dead, jid_of(oldest[1] or ''), soon) end
end
local length = has_type.queue and redis.call('LLEN', queue) or 0
if length > 0 then
  for _, range in ipairs({{-10, -1}, length > 10 and {0, math.min(9, length - 11)} or nil}) do
    for _, text in ipairs(redis.call('LRANGE', queue, range[1], range[2])) do check_job('queue', queue, text) end
  end
  if consumers == 0 and alive > 0 then add_finding('no_consumer', queue, '', length) end
  if has_type.queues and redis.call('SISMEMBER', queues, name) == 0 then add_finding('unlisted', queues, '', length) end
end
return {'looked', read, rows}
