-- Reap expired leases: jobs go back to their old position in ready, or to dead when the attempts are used up.
--
-- `next_ms` is the time until the next lease expires, -1 if there is none. A cancelled job, or one with an invalid
-- record, goes to dead.
--
-- moves    reserved -> ready | dead
-- forgets  done dead
-- writes   jobs bodies attempts errors meta events minutes wake
-- KEYS     ready reserved done dead jobs bodies attempts errors meta events minutes wake
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          limit     int     how many at most, 1 to 1000
-- returns  moved  (moved int, ready int, dead int, next_ms int)  reaped
--          empty  (next_ms int)  no lease has expired
-- include: keys, args
local version, max_default, done_max, dead_max, dead_ttl, watch, last_minute = unpack(redis.call(
  'HMGET', meta, 'version', 'max_attempts', 'done_max', 'dead_max', 'dead_ttl_ms', 'events', 'minute'))
-- include: key_types(ready done dead wake jobs bodies attempts errors events minutes), opening, limit, failed, header
local function next_ms()
  local deadline = redis.call('ZRANGE', reserved, 0, 0, 'WITHSCORES')[2]
  return deadline and math.max(0, math.ceil(deadline - now_ms)) or -1
end
local ids = redis.call('ZRANGEBYSCORE', reserved, '-inf', now_ms, 'LIMIT', 0, limit)
-- include: forget
local function retain()
  forget(done, now_ms, (tonumber(done_max) or 100000), 10)
  forget(dead, now_ms - (tonumber(dead_ttl) or 2592000000), (tonumber(dead_max) or 100000), 10 + #ids)
end
if #ids == 0 then
  pcall(retain)
  return {'empty', next_ms()}
end
local records, lines = redis.call('HMGET', jobs, unpack(ids)), redis.call('HMGET', attempts, unpack(ids))
local back, deaths, new_lines, reasons = {}, {}, {}, {}
for i, id in ipairs(ids) do
  local tried, _, score, began, priority, flag, worker = string.match(lines[i] or '', '^(%d+) (%S+) (%S+) (%S+) (%S+) (%S) (.*)$')
  local _, most = header(records[i] or '')
  local is_readable = tried and most and tonumber(score)
  local why = is_readable and 'the lease expired' or 'the record of this job cannot be read'
  if is_readable and flag ~= 'c' and tonumber(tried) < (tonumber(most) or (tonumber(max_default) or 5)) then
    back[#back + 1], back[#back + 2] = score, id
  else
    deaths[#deaths + 1], deaths[#deaths + 2] = now_ms, id
  end
  if tried then
    new_lines[#new_lines + 1], new_lines[#new_lines + 2] = id, table.concat({tried, '-', score, now_ms, priority, flag, worker}, ' ')
  end
  reasons[#reasons + 1], reasons[#reasons + 2] = id, failed(id, tonumber(began) or now_ms, worker or '', why)
end

redis.call('ZREM', reserved, '') -- removes nothing, but lets the drain continue over maxmemory
redis.call('HSET', errors, unpack(reasons))
if #new_lines > 0 then redis.call('HSET', attempts, unpack(new_lines)) end
if #back > 0 then redis.call('ZADD', ready, unpack(back)) end
if #deaths > 0 then redis.call('ZADD', dead, unpack(deaths)) end
redis.call('ZREM', reserved, unpack(ids))
-- include: minute, record_events
note('HINCRBY', meta, 'expired', #ids)
if #deaths > 0 then note('HINCRBY', meta, 'dead', #deaths / 2) end
pcall(retain)
if #back > 0 then note('ZADD', wake, 0, 'wake') end
record_events('reap', ids)
return {'moved', #ids, #back / 2, #deaths / 2, next_ms()}
