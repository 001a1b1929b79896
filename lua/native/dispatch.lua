-- Dispatch due jobs: make them ready, oldest first.
--
-- `ready` is the number of ready jobs before this batch; `next_ms` the time until the next due job, -1 without one.
-- A job whose record cannot be read goes to dead and does not stop the batch.
--
-- moves    scheduled -> ready | dead
-- forgets  done
-- writes   jobs bodies attempts errors meta events minutes wake
-- KEYS     scheduled  zset    id by due (ms)
--          ready      zset    id by priority, then arrival
--          done       zset    id by forget-at (ms)
--          dead       zset    id by died-at (ms)
--          jobs       hash    header and body by id
--          bodies     hash    long bodies by id
--          attempts   hash    what changes, by id
--          errors     hash    failed attempts by id
--          meta       hash    settings and counters
--          events     stream  what happened, while watched
--          minutes    stream  counters per minute
--          wake       zset    the marker that blocked consumers wait on
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          limit     int     how many at most, 1 to 1000
-- returns  moved  (moved int, scheduled int, ready int, next_ms int)  dispatched
--          empty  (scheduled int, ready int, next_ms int)  nothing is due
local scheduled, ready, done, dead, jobs, bodies, attempts, errors, meta, events, minutes, wake =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local limit = tonumber(ARGV[2])
local version, seq, done_max, watch, last_minute = unpack(redis.call('HMGET', meta, 'version', 'seq', 'done_max', 'events', 'minute'))
for _, key in ipairs({done, dead, wake}) do redis.call('ZCARD', key) end
for _, key in ipairs({jobs, bodies, attempts, errors}) do redis.call('HLEN', key) end
for _, key in ipairs({events, minutes}) do redis.call('XLEN', key) end
-- block: opening, limit, sequence, header
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
if version and version ~= '2' and version ~= '1' then
  return redis.error_reply('ERR this queue has schema version ' .. version .. ', these scripts speak 1 and 2; nothing was changed')
end
if #ARGV < 2 or string.find(ARGV[1] .. ARGV[2], '%D') or #ARGV[1] > 13 or not limit or limit < 1 or limit > 1000 then
  return redis.error_reply('ERR limit is 1 to 1000, now_ms a whole number; nothing was changed')
end
if seq and not string.match(seq, '^%d+$') then
  return redis.error_reply('ERR the field seq of ' .. meta .. ' is not a number; nothing was changed')
end
local function header(record) -- priority, max_attempts and body_bytes; nothing where it cannot be read
  local priority, most, long = string.match(record, '^%d+ %S+ (%-?%d+) %S+ (%S+) %S+ %S+ %S+ (%S+) [^\n]*\n')
  if priority then return priority, most, long end
  if string.find(record, '^%d+:[^\n]*\n') then return '0', '-', '-' end
end
-- end
local function next_ms()
  local due = redis.call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')[2]
  return due and math.max(0, math.ceil(due - now_ms)) or -1
end
local before = redis.call('ZCARD', ready)
local ids = redis.call('ZRANGEBYSCORE', scheduled, '-inf', now_ms, 'LIMIT', 0, limit)
-- block: note, forget
local function note(...) -- bookkeeping never fails the verb; what failed is counted
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then redis.pcall('HINCRBY', meta, 'unnoted', 1) end
end
local function forget(key, until_ms, most, batch)
  local old = redis.call('ZRANGEBYSCORE', key, '-inf', until_ms, 'LIMIT', 0, batch)
  local over = math.min(batch, redis.call('ZCARD', key) - most)
  if over > #old then old = redis.call('ZRANGE', key, 0, over - 1) end
  if #old == 0 then return end
  for _, hash in ipairs({jobs, bodies, attempts, errors}) do note('HDEL', hash, unpack(old)) end
  note('ZREM', key, unpack(old))
  note('HINCRBY', meta, 'forgotten', #old)
end
-- end
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

redis.call('ZREM', scheduled, '') -- frees nothing: a drain may go on over maxmemory
redis.call('HSET', meta, 'seq', string.format('%.0f', next_seq))
if #arrivals > 0 then redis.call('ZADD', ready, unpack(arrivals)) end
if #deaths > 0 then
  redis.call('HSET', errors, unpack(reasons))
  redis.call('ZADD', dead, unpack(deaths))
end
redis.call('ZREM', scheduled, unpack(ids))

-- block: minute
local minute = now_ms - now_ms % 60000
if minute > (tonumber(last_minute) or 0) then
  note('HSET', meta, 'minute', minute)
  local counters = redis.pcall('HGETALL', meta)
  if #counters < 400 then note('XADD', minutes, 'MAXLEN', '~', 1440, minute .. '-0', unpack(counters)) end
end
-- end
note('HINCRBY', meta, 'dispatched', #ids)
if #deaths > 0 then note('HINCRBY', meta, 'dead', #deaths / 2) end
pcall(forget, done, now_ms, (tonumber(done_max) or 100000), 10)
if #arrivals > 0 then note('ZADD', wake, 0, 'wake') end
if watch == 'on' or (tonumber(watch) or 0) > now_ms then
  for _, id in ipairs(ids) do note('XADD', events, 'MAXLEN', '~', 10000, '*', 'verb', 'dispatch', 'id', id) end
end
return {'moved', #ids, redis.call('ZCARD', scheduled), before, next_ms()}
