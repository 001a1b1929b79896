-- Reap expired leases: the jobs are due again. The programs of this system call this requeue.
--
-- `expiries` counts expired leases for the 1000 ids with most of them, to find jobs that crash their workers. In a batch,
-- only the first 100 are counted, because counting takes as long as moving. `next_ms` is the time until the next lease expires, -1 for none.
--
-- moves    expired -> due
-- writes   expiries
-- KEYS     jobs queued reserved expiries
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          limit?   int  jobs at most, 1 to 1000; 1000 when empty
--          unit     str  ms, s or auto
-- returns  moved  (moved int, ready int, dead int, next_ms int)  reaped
--          empty  (next_ms int)  no lease is over
-- include: keys, integers, key_types, server_time
local limit, unit, MS = tonumber(ARGV[2]) or 1000, ARGV[3], '100000000000'
if #ARGV[1] > 13 or string.find(ARGV[1], '%D') or limit < 1 or limit > 1000 or not ({ms = 1, s = 1, auto = 1})[unit] then
  return redis.error_reply('ERR limit is 1 to 1000, now_ms a whole number, the unit ms, s or auto; nothing was changed')
end
local now, now_s = string.format('%.0f', now_ms), string.format('%.3f', now_ms / 1000)
-- include: wait_ms
local has_ms = redis.call('ZCOUNT', queued, MS, '(9e15') + redis.call('ZCOUNT', reserved, MS, '(9e15') > 0
local due_ms, due_s = string.format('%.0f', now_ms), string.format('%.0f', math.floor(now_ms / 1000))
local low_due = has_ms and due_ms or due_s -- a score below 10^8 shows no unit: the other scores decide
local only = ({ms = due_ms, s = due_s})[unit]
local ids, back, taken = {}, {}, {}
for _, range in ipairs({{'-inf', '(100000000', low_due}, {'100000000', now_s, due_s}, {MS, now, due_ms}}) do
  local over = redis.call('ZRANGEBYSCORE', reserved, range[1], range[2], 'LIMIT', 0, limit - #ids)
  local due = only or range[3]
  for _, id in ipairs(over) do ids[#ids + 1], back[#back + 1], back[#back + 2] = id, due, id end
  if #over > 0 then taken[#taken + 1] = {range[1], #over} end
end
if #ids == 0 then return {'empty', wait_ms(reserved, '-inf', MS)} end

redis.call('ZREMRANGEBYRANK', reserved, 1, 0) -- frees nothing: a drain may go on over maxmemory
redis.call('ZADD', queued, 'NX', unpack(back)) -- a job that was enqueued again keeps its due time
for _, range in ipairs(taken) do -- by rank: ZREM of as many ids takes three times as long
  local from = range[1] == '-inf' and 0 or redis.call('ZCOUNT', reserved, '-inf', '(' .. range[1])
  redis.call('ZREMRANGEBYRANK', reserved, from, from + range[2] - 1)
end
local counted = {unpack(ids, 1, math.min(#ids, 100))}
local counts, scores = redis.pcall('ZMSCORE', expiries, unpack(counted)), {}
for i, id in ipairs(counted) do scores[2 * i - 1], scores[2 * i] = (tonumber(counts[i] or 0) or 0) + 1, id end
redis.pcall('ZADD', expiries, unpack(scores))
local from = now_ms % math.max(1, redis.call('ZCARD', expiries)) -- drop deleted jobs, a few per call
for _, id in ipairs(redis.pcall('ZRANGE', expiries, from, from + 20)) do
  if redis.pcall('HEXISTS', jobs, id) == 0 then redis.pcall('ZREM', expiries, id) end
end
redis.pcall('ZREMRANGEBYRANK', expiries, 0, -1001)
return {'moved', #ids, #ids, 0, wait_ms(reserved, '-inf', MS)}
