-- Take back expired leases: the jobs are due again. This is what the system's own programs call requeue.
--
-- How often that happened to an id is kept for the thousand most frequent ones, so that a job which kills its workers shows.
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
-- returns  moved  (moved int, ready int, dead int, next_ms int)  taken back
--          empty  (next_ms int)  no lease is over
local jobs, queued, reserved, expiries = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
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
local has_ms = redis.call('ZCOUNT', queued, MS, '+inf') + redis.call('ZCOUNT', reserved, MS, '+inf') > 0
local function is_ms(score) -- a score below 10^8 tells no unit: then that of the others
  if unit ~= 'auto' then return unit == 'ms' end
  return score >= 1e11 or (score < 1e8 and has_ms)
end
local ids, back = {}, {}
for _, range in ipairs({{'-inf', now_s}, {MS, now}}) do
  local over = #ids < limit and
    redis.call('ZRANGEBYSCORE', reserved, range[1], range[2], 'WITHSCORES', 'LIMIT', 0, limit - #ids) or {}
  for i = 1, #over, 2 do
    ids[#ids + 1] = over[i]
    back[#back + 1] = string.format('%.0f', is_ms(tonumber(over[i + 1])) and now_ms or math.floor(now_ms / 1000))
    back[#back + 1] = over[i]
  end
end
if #ids == 0 then return {'empty', next_ms()} end

redis.call('ZREMRANGEBYRANK', reserved, 1, 0) -- frees nothing: a drain may go on over maxmemory
redis.call('ZADD', queued, 'NX', unpack(back)) -- one that was put again meanwhile keeps its own due time
redis.call('ZREM', reserved, unpack(ids))

local times = redis.pcall('ZMSCORE', expiries, unpack(ids))
for i, id in ipairs(ids) do back[2 * i - 1], back[2 * i] = (tonumber(times[i] or 0) or 0) + 1, id end
redis.pcall('ZADD', expiries, unpack(back))
local from = now_ms % math.max(1, redis.call('ZCARD', expiries)) -- a few of them, each time others: are they still jobs?
for _, id in ipairs(redis.pcall('ZRANGE', expiries, from, from + 20)) do
  if redis.pcall('HEXISTS', jobs, id) == 0 then redis.pcall('ZREM', expiries, id) end
end
redis.pcall('ZREMRANGEBYRANK', expiries, 0, -1001)
return {'moved', #ids, #ids, 0, next_ms()}
