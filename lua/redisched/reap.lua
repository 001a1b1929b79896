-- Reap expired leases: the jobs are due again. This is what the system's own programs call requeue.
--
-- How often that happened is kept for the thousand ids that it happened to most, so that a job which kills its workers shows; of a
-- batch the first hundred are noted: a thousand at once are no poison, and noting them took as long as moving them.
-- `next_ms` is the time until the next lease expires, -1 without one.
--
-- moves    expired -> due
-- writes   expiries
-- KEYS     jobs                         hash  body by id
--          queued (queued due)          zset  id by due
--          reserved (reserved expired)  zset  id by lease deadline
--          expiries                     zset  id by leases that rqtui saw expire
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          limit?   int  how many at most, 1 to 1000; 1000 when empty
--          unit     str  ms, s or auto
-- returns  moved  (moved int, ready int, dead int, next_ms int)  reaped
--          empty  (next_ms int)  no lease is over
local jobs, queued, reserved, expiries = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
for _, at in ipairs({1, 2}) do
  if #ARGV < 3 or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 3 arguments, whole numbers where the header says int; nothing was changed')
  end
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local limit, unit, MS = tonumber(ARGV[2]) or 1000, ARGV[3], '100000000000'
redis.call('HLEN', jobs)
for _, key in ipairs({queued, reserved, expiries}) do redis.call('ZCARD', key) end
if #ARGV[1] > 13 or string.find(ARGV[1], '%D') or limit < 1 or limit > 1000 or not ({ms = 1, s = 1, auto = 1})[unit] then
  return redis.error_reply('ERR limit is 1 to 1000, now_ms a whole number, the unit ms, s or auto; nothing was changed')
end
local now, now_s = string.format('%.0f', now_ms), string.format('%.3f', now_ms / 1000)
local function next_ms()
  local soonest = -1
  for _, range in ipairs({{'-inf', '(' .. MS, 1000}, {MS, '(9e15', 1}}) do
    local score = redis.call('ZRANGEBYSCORE', reserved, range[1], range[2], 'WITHSCORES', 'LIMIT', 0, 1)[2]
    local wait = score and math.max(0, math.ceil(tonumber(score) * range[3] - now_ms))
    if wait and (soonest < 0 or wait < soonest) then soonest = wait end
  end
  return soonest
end
local has_ms = redis.call('ZCOUNT', queued, MS, '(9e15') + redis.call('ZCOUNT', reserved, MS, '(9e15') > 0
local due_ms, due_s = string.format('%.0f', now_ms), string.format('%.0f', math.floor(now_ms / 1000))
local low = has_ms and due_ms or due_s -- a score below 10^8 tells no unit: then that of the others
local only = ({ms = due_ms, s = due_s})[unit]
local ids, back, taken = {}, {}, {}
for _, range in ipairs({{'-inf', '(100000000', low}, {'100000000', now_s, due_s}, {MS, now, due_ms}}) do
  local over = #ids < limit and redis.call('ZRANGEBYSCORE', reserved, range[1], range[2], 'LIMIT', 0, limit - #ids) or {}
  local due = only or range[3]
  for _, id in ipairs(over) do ids[#ids + 1], back[#back + 1], back[#back + 2] = id, due, id end
  if #over > 0 then taken[#taken + 1] = {range[1], #over} end
end
if #ids == 0 then return {'empty', next_ms()} end

redis.call('ZREMRANGEBYRANK', reserved, 1, 0) -- frees nothing: a drain may go on over maxmemory
redis.call('ZADD', queued, 'NX', unpack(back)) -- one that was put again meanwhile keeps its own due time
for _, range in ipairs(taken) do -- by rank: a third of what ZREM of as many ids takes
  local from = range[1] == '-inf' and 0 or redis.call('ZCOUNT', reserved, '-inf', '(' .. range[1])
  redis.call('ZREMRANGEBYRANK', reserved, from, from + range[2] - 1)
end

local some = {unpack(ids, 1, math.min(#ids, 100))}
local times, notes = redis.pcall('ZMSCORE', expiries, unpack(some)), {}
for i, id in ipairs(some) do notes[2 * i - 1], notes[2 * i] = (tonumber(times[i] or 0) or 0) + 1, id end
redis.pcall('ZADD', expiries, unpack(notes))
local from = now_ms % math.max(1, redis.call('ZCARD', expiries)) -- a few of them, each time others: are they still jobs?
for _, id in ipairs(redis.pcall('ZRANGE', expiries, from, from + 20)) do
  if redis.pcall('HEXISTS', jobs, id) == 0 then redis.pcall('ZREM', expiries, id) end
end
redis.pcall('ZREMRANGEBYRANK', expiries, 0, -1001)
return {'moved', #ids, #ids, 0, next_ms()}
