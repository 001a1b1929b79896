-- Find problems of an RQ queue: runs without a worker, ids without a hash, hashes that will expire, due jobs
-- without a scheduler, jobs stuck before their start, jobs that wait for a failed job, jobs that several workers died
-- with, a rate limit that holds jobs back, results that fill the memory, and dead workers.
--
-- The script reads at most the first 8 and the last 8 ids of each place, and 200 workers. `hash` is the key of the example's hash. `word`
-- is a worker, a status or a rate limit; if another program uses the key, it is the type of the key. `seconds` is the age or the duration. An id that
-- RQ's own clean-up will remove, because it expired in the last 20 minutes, is not reported as a ghost. A hash that lasts a day or longer
-- is not reported as vanishing.
--
-- derived  <prefix>:job:<id>
--          <prefix>:results:<id>
--          <prefix>:worker:<worker>
--          <prefix>:execution:<member>
--          <prefix>:queue:<queue>:intermediate:first_seen:<id>
--          <prefix>:job:<id>:dependents
--          <prefix>:rl-keys
--          <prefix>:rl:<word>
--          <prefix>:rl:<word>:rate_limited
-- KEYS     scheduled deferred ready_to_enqueue queued started intermediate finished failed canceled workers
--          lock  string  exists while a scheduler of RQ serves the queue
--          suspended
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          prefix   str  prefix of all keys: rq
-- returns  looked  (looked int)  rows (kind str, key str, id bytes, number int, hash str, word str, seconds int)
-- include: keys, now_guard, clock_prefix
local now_s = now_ms / 1000
-- include: read, type_of, ends_of, add_finding_row
local looked = 0
local function add_finding(kind, key, id, number, word, seconds)
  add_finding_row(kind, key, id, number, id ~= '' and prefix .. ':job:' .. id or '', word or '', seconds or 0)
end
local function seconds_since(at_s)
  return math.max(0, math.min(1e9, math.floor(now_s - at_s)))
end
local function id_of(member)
  return string.match(member, '^([^:]*):') or member
end

local function number_in(command, key) -- 0 if the key has another type, which is then a finding
  local found = read(command, key)
  if not found then add_finding('wrong_type:key', key, '', 1, type_of(key)) end
  return found or 0
end

local living, dead, example = 0, 0, nil
local registered = read('SSCAN', workers, 0, 'COUNT', 200)
if not registered then add_finding('wrong_type:key', workers, '', 1, type_of(workers)) end
for _, worker in ipairs(registered and registered[2] or {}) do
  looked = looked + 1
  if redis.call('EXISTS', worker) == 1 then
    living = living + 1
  else
    dead, example = dead + 1, example or worker
  end
end

local function is_held(id, member, worker) -- as in `reap`: a job of a live worker stays with it
  if redis.call('EXISTS', prefix .. ':execution:' .. member) == 1 then return true end
  local values = redis.pcall('HMGET', prefix .. ':worker:' .. worker, 'birth', 'current_job')
  if not values[1] then return false end
  return values[2] == id or redis.pcall('SISMEMBER', prefix .. ':worker:' .. worker .. ':executions', member) == 1
end
local add_once = {} -- keys that a finding names already
local function check_job(place, key, member, score)
  looked = looked + 1
  local id = score and id_of(member) or member
  local hash = prefix .. ':job:' .. id
  local values = redis.pcall('HMGET', hash, 'status', 'ttl', 'worker_name', 'created_at')
  if values.err then return add_finding('wrong_type', hash, id, 1) end
  local is_there = values[1] or values[4] or redis.call('EXISTS', hash) == 1
  local over_s = score and now_s - score or 0
  local is_kept = place == 'finished' or place == 'failed'
  if not is_there and not (is_kept and over_s >= 0 and over_s < 1200) then add_finding('ghost', key, id, 1) end
  if not is_there then return end
  if place == 'started' and over_s > 0 and values[1] == 'started' and not is_held(id, member, values[3] or '') then
    add_finding('abandoned', key, id, 1, values[3] or '', seconds_since(score))
  end
  if place == 'intermediate' then
    local seen = redis.pcall('GET', prefix .. ':queue:' .. string.sub(queued, #prefix + 8) .. ':intermediate:first_seen:' .. id)
    seen = type(seen) == 'string' and tonumber(seen) or nil
    local is_other = values[1] and values[1] ~= 'queued' and values[1] ~= 'started'
    if is_other or living == 0 or seen and now_s - seen > 60 then
      add_finding('stale_intermediate', key, id, 1, values[1] or '', seen and seconds_since(seen) or 0)
    end
  end
  if (place == 'queued' or place == 'scheduled' or place == 'deferred' or place == 'ready_to_enqueue') and not values[2] then
    local left_ms = redis.call('PTTL', hash)
    if left_ms ~= -1 and left_ms < 86400000 then add_finding('vanishing', key, id, 1, values[1] or '', math.floor(left_ms / 1000)) end
  end
end
local function check_parents(id) -- RQ never enqueues a job while one of these is failed, stopped or canceled
  local values = redis.pcall('HMGET', prefix .. ':job:' .. id, 'status', 'dependency_ids', 'allow_dependency_failures')
  if values.err or values[1] ~= 'deferred' then return end
  local number = 0
  for parent in string.gmatch(string.sub(values[2] or '', 1, 4096), '"([^"]+)"') do
    number, looked = number + 1, looked + 1
    if number > 20 then return end
    local hash = prefix .. ':job:' .. parent
    local parent_fields = redis.pcall('HMGET', hash, 'status', 'ended_at')
    local is_final = parent_fields[1] == 'stopped' or parent_fields[1] == 'canceled' or parent_fields[1] == 'failed' and values[3] ~= '1'
    if is_final and not add_once[hash] then
      add_once[hash] = true
      local waiting = redis.pcall('SCARD', hash .. ':dependents')
      add_finding('parent_failed', hash, parent, math.max(1, type(waiting) == 'number' and waiting or 1), parent_fields[1])
    end
    if is_final then return end
  end
end
local lengths = {}
for _, zset in ipairs({{'scheduled', scheduled}, {'deferred', deferred}, {'ready_to_enqueue', ready_to_enqueue}, {'started', started},
  {'finished', finished}, {'failed', failed}, {'canceled', canceled}}) do
  lengths[zset[1]] = number_in('ZCARD', zset[2])
  local found = lengths[zset[1]] > 0 and ends_of(zset[2], 'ZRANGE', lengths[zset[1]], 'WITHSCORES') or {}
  for i = 1, #found, 2 do
    check_job(zset[1], zset[2], found[i], tonumber(found[i + 1]))
    if zset[1] == 'deferred' then check_parents(found[i]) end
  end
end
for _, list in ipairs({{'queued', queued}, {'intermediate', intermediate}}) do
  local length = number_in('LLEN', list[2])
  for _, id in ipairs(length > 0 and ends_of(list[2], 'LRANGE', length) or {}) do check_job(list[1], list[2], id) end
end

local holder, rests = unpack(redis.call('MGET', lock, suspended)) -- MGET returns nil for a key of another type
if redis.call('EXISTS', lock, suspended) > (holder and 1 or 0) + (rests and 1 or 0) then
  for _, each in ipairs({{'wrong_type:key', lock}, {'wrong_type:suspended', suspended}}) do
    local kind = type_of(each[2])
    if kind ~= 'string' and kind ~= 'none' then add_finding(each[1], each[2], '', 1, kind) end
  end
end
if lengths.scheduled > 0 then
  local due = redis.call('ZCOUNT', scheduled, '-inf', string.format('%.3f', now_s))
  local first = redis.call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')
  local late_s = seconds_since(tonumber(first[2]))
  local far = redis.call('ZCOUNT', scheduled, '1e11', '(inf')
  if far > 0 then
    add_finding('mixed_units', scheduled, redis.call('ZRANGEBYSCORE', scheduled, '1e11', '(inf', 'LIMIT', 0, 1)[1], far)
  end
  if due > 0 and not holder and redis.call('EXISTS', lock) == 0 then add_finding('no_scheduler', scheduled, first[1], due, '', late_s) end
  if due > 0 and holder and late_s >= 120 then
    add_finding('scheduler_behind', scheduled, first[1], due, string.sub(holder, 1, 100), late_s)
  end
end
local kept = lengths.finished + lengths.failed
if kept >= 20000 then
  local place = lengths.finished >= lengths.failed and finished or failed
  local id, with_results = '', 0
  for _, each in ipairs(redis.call('ZRANGE', place, -10, -1)) do
    with_results, id = with_results + redis.call('EXISTS', prefix .. ':results:' .. each), each
  end
  if with_results > 0 then add_finding('heavy_results', place, id, kept, '', math.floor(kept * 5.2 / 1000)) end
end
local limits = redis.pcall('SSCAN', prefix .. ':rl-keys', 0, 'COUNT', 20)
for at = 1, limits.err and 0 or math.min(20, #limits[2]) do
  local key = prefix .. ':rl:' .. limits[2][at]
  local held = redis.pcall('ZRANGE', key .. ':rate_limited', 0, 0)
  looked = looked + 1
  if not held.err and held[1] and redis.pcall('HGET', prefix .. ':job:' .. held[1], 'origin') == string.sub(queued, #prefix + 8) then
    local concurrency = redis.pcall('HGET', key, 'concurrency')
    add_finding('held_by_limit', key .. ':rate_limited', held[1], redis.call('ZCARD', key .. ':rate_limited'), limits[2][at],
      math.min(1e9, tonumber(type(concurrency) == 'string' and concurrency or '') or 0))
  end
end
if dead > 0 then add_finding('worker_gone', workers, '', dead, example) end
return {'looked', looked, rows}
