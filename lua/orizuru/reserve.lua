-- Lease the next jobs to a consumer, which holds them until it acks or rejects them, or becomes silent.
--
-- The jobs move as by BRPOPLPUSH, several at once. This script registers the consumer and sends its heartbeat, so that
-- its jobs come back if it dies. In the original, the consumer's own program has to do both.
--
-- moves    source -> processing
-- writes   consumers heartbeats
-- derived  orizuru:consumers:<worker>:processing
--          orizuru:consumers:<worker>:heartbeat
-- KEYS     source consumers heartbeats
-- ARGV     now_ms?    int  a test's clock; the server's when empty
--          silent_ms  int  a consumer without a heartbeat for this long is dead
--          limit      int  how many at most, 1 to 1000
--          worker?    str  the consumer; rqtui when empty
--          ttr_ms?    int  how long its heartbeat lasts; silent_ms when empty
-- returns  moved  (now_ms int)  rows (head bytes, size int, tail bytes, worker bytes, beat_ms int, deadline_ms int)  leased
--          empty  nothing is ready
local argument_count = 5
-- include: keys, silent_ms, args(limit worker)
local ttr_ms = tonumber(ARGV[5]) or silent_ms
if worker == '' then worker = 'rqtui' end
local processing, heartbeat = 'orizuru:consumers:' .. worker .. ':processing', 'orizuru:consumers:' .. worker .. ':heartbeat'
if not limit or limit < 1 or limit > 1000 or not ttr_ms or ttr_ms < 1 then
  return redis.error_reply('ERR limit is 1 to 1000, ttr_ms and silent_ms are 1 or more; nothing was changed')
end
for _, key in ipairs({source, processing}) do redis.call('LLEN', key) end
-- include: key_types(consumers heartbeats)
redis.call('STRLEN', heartbeat)
local count = math.min(limit, redis.call('LLEN', source))
if count == 0 then return 'empty' end
local deadline_ms, rows = now_ms + math.max(ttr_ms, silent_ms), {}

redis.call('LTRIM', source, 0, -1) -- removes nothing, but lets the drain continue over maxmemory
for i = 1, count do
  local body = redis.call('LMOVE', source, processing, 'RIGHT', 'LEFT')
  rows[i] = {body, #body, string.sub(body, -64), worker, now_ms, deadline_ms}
end
redis.pcall('SADD', consumers, worker)
redis.pcall('HSET', heartbeats, worker, string.format('%.0f', now_ms))
local left_ms = redis.pcall('PTTL', heartbeat)
if left_ms == -2 or (type(left_ms) == 'number' and left_ms >= 0 and left_ms < ttr_ms) then
  redis.pcall('SET', heartbeat, string.format('%.0f', now_ms), 'PX', ttr_ms)
end
return {'moved', now_ms, rows}
