-- Reap dead consumers: what they hold goes back in its order; on request also what was rejected.
--
-- A consumer is dead when its heartbeat is gone, its last beat is older than `silent_ms`, and its list has not changed for as long:
-- the original cannot beat while it waits for a job, so one that idled holds a fresh job without a beat. How long a list has stood
-- as it is stands in `seen`, from the first call that found its heartbeat gone. A consumer that never beat is left alone.
-- The newest jobs of a dead one go back first, so that the oldest is the next one however many batches it takes. What was rejected goes behind
-- those that wait. `next_ms` is the time until the next consumer that holds jobs may be dead, -1 without one.
--
-- moves    processing unacked -> source
-- writes   seen
-- derived  orizuru:consumers:<worker>:processing
--          orizuru:consumers:<worker>:unacked
--          orizuru:consumers:<worker>:heartbeat
-- KEYS     source                          list  ready jobs, the next one last
--          consumers (processing unacked)  set   names of registered consumers
--          heartbeats                      hash  last beat (unix ms) by name
--          seen                            hash  since when (unix ms) a list has its length and its newest job, by name
-- ARGV     now_ms?    int   a test's clock; the server's when empty
--          silent_ms  int   a consumer is dead after so long without a beat
--          limit      int   how many at most, 1 to 1000
--          gc?        bool  also what was rejected
--          each       (worker bytes)  consumers whose lists were seen
-- returns  moved  (moved int, ready int, dead int, next_ms int)  reaped
--          empty  (next_ms int)  no dead consumer holds any
local source, consumers, heartbeats, seen = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
for _, at in ipairs({1, 2, 3}) do
  if #ARGV < 4 or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 4 arguments, whole numbers where the header says int; nothing was changed')
  end
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local silent_ms, limit, gc = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == '1'
if not silent_ms or silent_ms < 1 or not limit or limit < 1 or limit > 1000 then
  return redis.error_reply('ERR limit is 1 to 1000, silent_ms is 1 or more; nothing was changed')
end
redis.call('LLEN', source)
redis.call('HLEN', seen)
local names, beats = {}, {}
local function add(name)
  if not beats[name] and #names < 1000 then names[#names + 1], beats[name] = name, math.huge end
end
for i = 5, #ARGV do add(ARGV[i]) end
for _, name in ipairs(redis.call('SSCAN', consumers, 0, 'COUNT', 1000)[2]) do add(name) end
local flat = redis.call('HSCAN', heartbeats, 0, 'COUNT', 1000)[2]
for i = 1, #flat, 2 do
  add(flat[i])
  if beats[flat[i]] then beats[flat[i]] = tonumber(string.match(flat[i + 1], '^%d+$') or '') or math.huge end
end
table.sort(names, function(a, b)
  if beats[a] ~= beats[b] then return beats[a] < beats[b] end
  return a < b
end)

local plan, room, next_ms = {}, limit, -1 -- what moves, decided before the first write
local function take(key, side, to)
  local length = redis.pcall('LLEN', key)
  if type(length) ~= 'number' then return 0 end -- a key of another type; `faults` names it
  local count = math.min(length, room)
  if count > 0 then plan[#plan + 1] = {key, side, to, count} end
  room = room - count
  return length - count
end
local function picture(key) -- what of a list tells that its consumer took or settled a job; nothing of an empty one
  local newest = redis.pcall('LINDEX', key, 0)
  if type(newest) ~= 'string' then return nil end
  return redis.call('LLEN', key) .. ' ' .. #newest .. ' ' .. string.sub(newest, 1, 64)
end
local since = {} -- by name, for lists of consumers whose heartbeat is gone
for _, name in ipairs(names) do
  local key, beat = 'orizuru:consumers:' .. name .. ':processing', beats[name]
  local left_ms = redis.call('PTTL', 'orizuru:consumers:' .. name .. ':heartbeat')
  local stands = left_ms ~= -1 and beat < math.huge and picture(key)
  if stands and left_ms == -2 then
    local first_ms, as_it_was = string.match(redis.call('HGET', seen, name) or '', '^(%d+) (.*)$')
    first_ms = as_it_was == stands and math.min(tonumber(first_ms), now_ms) or now_ms
    since[name] = string.format('%.0f', first_ms)
    beat = math.max(beat, first_ms)
  end
  if stands and left_ms == -2 and now_ms - beat > silent_ms then
    if take(key, 'LEFT', 'RIGHT') > 0 then next_ms = 0 end
  elseif stands then
    local ends_ms = math.max(1, left_ms, beat + silent_ms - now_ms + 1)
    if next_ms < 0 or ends_ms < next_ms then next_ms = ends_ms end
  end
end
for _, name in ipairs(gc and names or {}) do
  if take('orizuru:consumers:' .. name .. ':unacked', 'RIGHT', 'LEFT') > 0 then next_ms = 0 end
end
local kept = {} -- the names that `seen` holds, and those that it will
for _, name in ipairs(redis.call('HKEYS', seen)) do kept[name] = true end
for name in pairs(since) do kept[name] = true end
if #plan > 0 or next(kept) then redis.call('LTRIM', source, 0, -1) end -- frees nothing: a drain may go on over maxmemory
for _, move in ipairs(plan) do
  local key, side, to, count = unpack(move)
  for _ = 1, count do redis.call('LMOVE', key, source, side, to) end
end
for name in pairs(kept) do
  local stands = since[name] and picture('orizuru:consumers:' .. name .. ':processing')
  local told = stands and since[name] .. ' ' .. stands
  if not told then
    redis.call('HDEL', seen, name)
  elseif redis.call('HGET', seen, name) ~= told then
    redis.call('HSET', seen, name, told)
  end
end
if #plan == 0 then return {'empty', next_ms} end
return {'moved', limit - room, limit - room, 0, next_ms}
