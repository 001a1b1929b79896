-- Reap dead consumers: return the jobs that they hold to the source in their order; on request also the rejected jobs.
--
-- A consumer is dead if its heartbeat key is missing, its last heartbeat is older than `silent_ms`, and its list has
-- not changed for the same time. The list matters because the original cannot send heartbeats while it waits for a job:
-- after an idle time it holds a new job without a heartbeat. `seen` stores since when a list is unchanged, from the
-- first call that found the heartbeat key missing. A consumer without any heartbeat is never reaped. The newest jobs of
-- a dead consumer return first, so that the oldest is the next one after any number of batches. Rejected jobs go behind
-- the waiting jobs. `next_ms` is the time until the next consumer that holds jobs may be dead, -1 if there is none.
--
-- moves    processing unacked -> source
-- writes   seen
-- derived  orizuru:consumers:<worker>:processing
--          orizuru:consumers:<worker>:unacked
--          orizuru:consumers:<worker>:heartbeat
-- KEYS     source consumers heartbeats
--          seen  hash  since when (unix ms) a list has its length and its newest job, by name
-- ARGV     now_ms?    int   a test's clock; the server's when empty
--          silent_ms  int   a consumer without a heartbeat for this long is dead
--          limit      int   how many at most, 1 to 1000
--          gc?        bool  also the rejected jobs
--          each       (worker bytes)  further consumers whose lists exist
-- returns  moved  (moved int, ready int, dead int, next_ms int)  reaped
--          empty  (next_ms int)  no dead consumer holds a job
-- include: keys, arguments, server_time, args
if not silent_ms or silent_ms < 1 or not limit or limit < 1 or limit > 1000 then
  return redis.error_reply('ERR limit is 1 to 1000, silent_ms is 1 or more; nothing was changed')
end
local asked_from = 5
-- include: key_types(source seen), consumers
local beat_of = {} -- infinite for a consumer without a heartbeat
for _, name in ipairs(names) do beat_of[name] = math.huge end
for i = 1, #beats, 2 do beat_of[beats[i]] = tonumber(string.match(beats[i + 1], '^%d+$') or '') or math.huge end
table.sort(names, function(a, b)
  if beat_of[a] ~= beat_of[b] then return beat_of[a] < beat_of[b] end
  return a < b
end)

local plan, room, next_ms = {}, limit, nil -- All moves are decided before the first write.
local function take(key, side, to)
  local length = redis.pcall('LLEN', key)
  if type(length) ~= 'number' then return 0 end -- A key of another type counts as empty; `faults` reports it.
  local count = math.min(length, room)
  if count > 0 then plan[#plan + 1] = {key, side, to, count} end
  room = room - count
  return length - count
end
-- Every job that the consumer takes or finishes changes this text. It is nil for an empty list.
local function describe_list(key)
  local newest = redis.pcall('LINDEX', key, 0)
  if type(newest) ~= 'string' then return nil end
  return redis.call('LLEN', key) .. ' ' .. #newest .. ' ' .. string.sub(newest, 1, 64)
end
local since = {} -- since when a list is unchanged, by name, for consumers whose heartbeat key is missing
for _, name in ipairs(names) do
  local key, beat = 'orizuru:consumers:' .. name .. ':processing', beat_of[name]
  local left_ms = redis.call('PTTL', 'orizuru:consumers:' .. name .. ':heartbeat')
  local list = left_ms ~= -1 and beat < math.huge and describe_list(key)
  if list and left_ms == -2 then
    local first_ms, previous = string.match(redis.call('HGET', seen, name) or '', '^(%d+) (.*)$')
    first_ms = previous == list and math.min(tonumber(first_ms), now_ms) or now_ms
    since[name] = string.format('%.0f', first_ms)
    beat = math.max(beat, first_ms)
  end
  if list and left_ms == -2 and now_ms - beat > silent_ms then
    if take(key, 'LEFT', 'RIGHT') > 0 then next_ms = 0 end
  elseif list then
    local ends_ms = math.max(1, left_ms, beat + silent_ms - now_ms + 1)
    next_ms = math.min(next_ms or ends_ms, ends_ms)
  end
end
for _, name in ipairs(gc and names or {}) do
  if take('orizuru:consumers:' .. name .. ':unacked', 'RIGHT', 'LEFT') > 0 then next_ms = 0 end
end
local kept = {} -- the names in `seen`, before and after this call
for _, name in ipairs(redis.call('HKEYS', seen)) do kept[name] = true end
for name in pairs(since) do kept[name] = true end
if #plan > 0 or next(kept) then redis.call('LTRIM', source, 0, -1) end -- removes nothing, but lets the drain continue over maxmemory
for _, move in ipairs(plan) do
  local key, side, to, count = unpack(move)
  for _ = 1, count do redis.call('LMOVE', key, source, side, to) end
end
for name in pairs(kept) do
  local list = since[name] and describe_list('orizuru:consumers:' .. name .. ':processing')
  local entry = list and since[name] .. ' ' .. list
  if not entry then
    redis.call('HDEL', seen, name)
  elseif redis.call('HGET', seen, name) ~= entry then
    redis.call('HSET', seen, name, entry)
  end
end
if #plan == 0 then return {'empty', next_ms or -1} end
return {'moved', limit - room, limit - room, 0, next_ms or -1}
