-- Find what goes wrong in a queue of RQ: runs whose worker is gone, ids whose hash is gone, hashes that will be gone, due jobs that
-- nobody enqueues, jobs stuck before their start, results that fill the memory, workers that died.
--
-- At most the 8 first and the 8 last ids of each place, and 200 workers, are looked at. `hash` is the key of the example's hash,
-- `word` a worker or a status, `seconds` how long it is so, or lasts. Ids that RQ's own clean-up takes away by itself, whose time
-- was over in the last 20 minutes, are no ghosts; a hash that lasts a day or longer is not vanishing. Of a key of another program
-- `word` is its type.
--
-- derived  <prefix>:job:<id>
--          <prefix>:results:<id>
--          <prefix>:worker:<worker>
--          <prefix>:execution:<member>
--          <prefix>:queue:<queue>:intermediate:first_seen:<id>
-- KEYS     scheduled         zset  id by due (s)
--          deferred          zset  id by since when (s)
--          ready_to_enqueue  zset  id by since when (s); RQ 3
--          queued            list  ids, the next one first
--          started           zset  id:execution by deadline (s)
--          intermediate      list  ids between queue and start
--          finished          zset  id by when it is forgotten (s)
--          failed            zset  id by when it is forgotten (s)
--          canceled          zset  id by since when (s)
--          workers           set     keys of workers
--          lock              string  there while a scheduler sees to the queue
--          suspended         string  there while all workers rest
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          prefix   str  before all keys: rq
-- returns  looked  (looked int)  rows (kind str, key str, id bytes, number int, hash str, word str, seconds int)
local scheduled, deferred, ready_to_enqueue, queued, started, intermediate, finished, failed, canceled, workers, lock, suspended =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12]
if #ARGV < 2 or #ARGV[1] > 15 or string.find(ARGV[1], '%D') then
  return redis.error_reply('ERR now_ms is a whole number; nothing was changed')
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local prefix, now_s = ARGV[2], now_ms / 1000
-- block: read, type_of
local function read(...)
  local told = redis.pcall(...)
  if type(told) ~= 'table' or not told.err then return told end
  return not string.find(tostring(told.err), 'WRONGTYPE', 1, true) and redis.call(...) or nil
end
local function type_of(key) -- a table, or a string where Redis is played
  local found = redis.call('TYPE', key)
  return type(found) == 'table' and found.ok or found
end
-- end
local looked, rows, at = 0, {}, {}
local function met(kind, key, id, number, word, seconds) -- the first of a kind and a key is the example
  local known = at[kind .. key]
  if known then
    rows[known][4] = rows[known][4] + number
  else
    rows[#rows + 1] = {kind, key, string.sub(id, 1, 1000), number, id ~= '' and prefix .. ':job:' .. id or '', word or '', seconds or 0}
    at[kind .. key] = #rows
  end
end
local function seconds_since(at_s)
  return math.max(0, math.min(1e9, math.floor(now_s - at_s)))
end
local function ends_of(key, command, length, ...) -- the first and the last members, with their scores
  local found = redis.call(command, key, 0, length <= 16 and -1 or 7, ...)
  for _, each in ipairs(length > 16 and redis.call(command, key, -8, -1, ...) or {}) do found[#found + 1] = each end
  return found
end
local function id_of(member)
  return string.match(member, '^([^:]*):') or member
end

local function number_in(command, key) -- 0 where it is another program's
  local found = read(command, key)
  if not found then met('wrong_type:key', key, '', 1, type_of(key)) end
  return found or 0
end

local living, dead, example = 0, 0, nil
local registered = read('SSCAN', workers, 0, 'COUNT', 200)
if not registered then met('wrong_type:key', workers, '', 1, type_of(workers)) end
for _, worker in ipairs(registered and registered[2] or {}) do
  looked = looked + 1
  if redis.call('EXISTS', worker) == 1 then
    living = living + 1
  else
    dead, example = dead + 1, example or worker
  end
end

local function is_held(id, member, worker) -- as reap sees it: what a living worker runs stays with it
  if redis.call('EXISTS', prefix .. ':execution:' .. member) == 1 then return true end
  local told = redis.pcall('HMGET', prefix .. ':worker:' .. worker, 'birth', 'current_job')
  if not told[1] then return false end
  return told[2] == id or redis.pcall('SISMEMBER', prefix .. ':worker:' .. worker .. ':executions', member) == 1
end
local function look(place, key, member, score)
  looked = looked + 1
  local id = score and id_of(member) or member
  local hash = prefix .. ':job:' .. id
  local told = redis.pcall('HMGET', hash, 'status', 'ttl', 'worker_name', 'created_at')
  if told.err then return met('wrong_type', hash, id, 1) end
  local is_there = told[1] or told[4] or redis.call('EXISTS', hash) == 1
  local over_s = score and now_s - score or 0
  local is_kept = place == 'finished' or place == 'failed'
  if not is_there and not (is_kept and over_s >= 0 and over_s < 1200) then met('ghost', key, id, 1) end
  if not is_there then return end
  if place == 'started' and over_s > 0 and told[1] == 'started' and not is_held(id, member, told[3] or '') then
    met('abandoned', key, id, 1, told[3] or '', seconds_since(score))
  end
  if place == 'intermediate' then
    local seen = redis.pcall('GET', prefix .. ':queue:' .. string.sub(queued, #prefix + 8) .. ':intermediate:first_seen:' .. id)
    seen = type(seen) == 'string' and tonumber(seen) or nil
    local is_other = told[1] and told[1] ~= 'queued' and told[1] ~= 'started'
    if is_other or living == 0 or seen and now_s - seen > 60 then
      met('stale_intermediate', key, id, 1, told[1] or '', seen and seconds_since(seen) or 0)
    end
  end
  if (place == 'queued' or place == 'scheduled' or place == 'deferred' or place == 'ready_to_enqueue') and not told[2] then
    local left_ms = redis.call('PTTL', hash)
    if left_ms >= 0 and left_ms < 86400000 then met('vanishing', key, id, 1, told[1] or '', math.floor(left_ms / 1000)) end
  end
end
local lengths = {}
for _, zset in ipairs({{'scheduled', scheduled}, {'deferred', deferred}, {'ready_to_enqueue', ready_to_enqueue}, {'started', started},
  {'finished', finished}, {'failed', failed}, {'canceled', canceled}}) do
  lengths[zset[1]] = number_in('ZCARD', zset[2])
  local found = lengths[zset[1]] > 0 and ends_of(zset[2], 'ZRANGE', lengths[zset[1]], 'WITHSCORES') or {}
  for i = 1, #found, 2 do look(zset[1], zset[2], found[i], tonumber(found[i + 1])) end
end
for _, list in ipairs({{'queued', queued}, {'intermediate', intermediate}}) do
  local length = number_in('LLEN', list[2])
  for _, id in ipairs(length > 0 and ends_of(list[2], 'LRANGE', length) or {}) do look(list[1], list[2], id) end
end

local holder, rests = unpack(redis.call('MGET', lock, suspended)) -- of another type they are as if they were not there
if redis.call('EXISTS', lock, suspended) > (holder and 1 or 0) + (rests and 1 or 0) then
  for _, each in ipairs({{'wrong_type:key', lock}, {'wrong_type:suspended', suspended}}) do
    local kind = type_of(each[2])
    if kind ~= 'string' and kind ~= 'none' then met(each[1], each[2], '', 1, kind) end
  end
end
if lengths.scheduled > 0 then
  local due = redis.call('ZCOUNT', scheduled, '-inf', string.format('%.3f', now_s))
  local first = redis.call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')
  local late_s = seconds_since(tonumber(first[2]))
  local far = redis.call('ZCOUNT', scheduled, '1e11', '(inf')
  if far > 0 then
    met('mixed_units', scheduled, redis.call('ZRANGEBYSCORE', scheduled, '1e11', '(inf', 'LIMIT', 0, 1)[1], far)
  end
  if due > 0 and not holder and redis.call('EXISTS', lock) == 0 then met('no_scheduler', scheduled, first[1], due, '', late_s) end
  if due > 0 and holder and late_s >= 120 then
    met('scheduler_behind', scheduled, first[1], due, string.sub(holder, 1, 100), late_s)
  end
end
local kept = lengths.finished + lengths.failed
if kept >= 20000 then
  local place = lengths.finished >= lengths.failed and finished or failed
  local id, with_results = '', 0
  for _, each in ipairs(redis.call('ZRANGE', place, -10, -1)) do
    with_results, id = with_results + redis.call('EXISTS', prefix .. ':results:' .. each), each
  end
  if with_results > 0 then met('heavy_results', place, id, kept, '', math.floor(kept * 5.2 / 1000)) end
end
if dead > 0 then met('worker_gone', workers, '', dead, example) end
return {'looked', looked, rows}
