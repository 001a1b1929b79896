-- Dispatch due jobs: make them ready, oldest first.
--
-- `ready` is the number of ready jobs before this batch. `next_ms` is the time until the next due job, -1 if there is
-- none. A job with an invalid record goes to dead and does not stop the batch.
--
-- moves    scheduled -> ready | dead
-- forgets  done
-- writes   jobs bodies attempts errors meta events minutes wake
-- KEYS     scheduled ready done dead jobs bodies attempts errors meta events minutes wake
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          limit     int     how many at most, 1 to 1000
-- returns  moved  (moved int, scheduled int, ready int, next_ms int)  dispatched
--          empty  (scheduled int, ready int, next_ms int)  nothing is due
-- include: keys, args
local version, seq, done_max, watch, last_minute = unpack(redis.call('HMGET', meta, 'version', 'seq', 'done_max', 'events', 'minute'))
-- include: key_types(done dead wake jobs bodies attempts errors events minutes), opening, limit, sequence, header
local function next_ms()
  local due = redis.call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')[2]
  return due and math.max(0, math.ceil(due - now_ms)) or -1
end
local before = redis.call('ZCARD', ready)
local ids = redis.call('ZRANGEBYSCORE', scheduled, '-inf', now_ms, 'LIMIT', 0, limit)
-- include: forget
if #ids == 0 then
  pcall(forget, done, now_ms, (tonumber(done_max) or 100000), 10)
  return {'empty', redis.call('ZCARD', scheduled), before, next_ms()}
end
local records, lines = redis.call('HMGET', jobs, unpack(ids)), redis.call('HMGET', attempts, unpack(ids))
local next_seq, arrivals, deaths, reasons = tonumber(seq or 0), {}, {}, {}
for i, id in ipairs(ids) do
  local priority = header(records[i] or '')
  if priority then
    next_seq = next_seq + 1
    priority = tonumber(string.match(lines[i] or '', '^%d+ %S+ %S+ %S+ (%S+) ') or '') or tonumber(priority)
    arrivals[#arrivals + 1], arrivals[#arrivals + 2] = string.format('%.0f', priority * 2 ^ 40 + next_seq), id
  else
    deaths[#deaths + 1], deaths[#deaths + 2] = now_ms, id
    reasons[#reasons + 1], reasons[#reasons + 2] = id, cjson.encode({{now_ms, now_ms, '', 'the record of this job cannot be read'}})
  end
end

redis.call('ZREM', scheduled, '') -- removes nothing, but lets the drain continue over maxmemory
redis.call('HSET', meta, 'seq', string.format('%.0f', next_seq))
if #arrivals > 0 then redis.call('ZADD', ready, unpack(arrivals)) end
if #deaths > 0 then
  redis.call('HSET', errors, unpack(reasons))
  redis.call('ZADD', dead, unpack(deaths))
end
redis.call('ZREM', scheduled, unpack(ids))
-- include: minute, record_events
note('HINCRBY', meta, 'dispatched', #ids)
if #deaths > 0 then note('HINCRBY', meta, 'dead', #deaths / 2) end
pcall(forget, done, now_ms, (tonumber(done_max) or 100000), 10)
if #arrivals > 0 then note('ZADD', wake, 0, 'wake') end
record_events('dispatch', ids)
return {'moved', #ids, redis.call('ZCARD', scheduled), before, next_ms()}
