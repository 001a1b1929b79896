-- Reap expired leases: jobs go back to their old position in ready, or to dead when the attempts are used up.
--
-- `next_ms` is the time until the next lease expires, -1 without one. A job whose cancellation was asked for, or whose
-- record cannot be read, goes to dead.
--
-- moves    reserved -> ready | dead
-- forgets  done dead
-- writes   jobs bodies attempts errors meta events minutes wake
-- KEYS     ready      zset    id by priority, then arrival
--          reserved   zset    id by lease deadline (ms)
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
-- returns  moved  (moved int, ready int, dead int, next_ms int)  reaped
--          empty  (next_ms int)  no lease is over
local ready, reserved, done, dead, jobs, bodies, attempts, errors, meta, events, minutes, wake =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local limit = tonumber(ARGV[2])
local version, max_default, done_max, dead_max, dead_ttl, watch, last_minute = unpack(redis.call(
  'HMGET', meta, 'version', 'max_attempts', 'done_max', 'dead_max', 'dead_ttl_ms', 'events', 'minute'))
for _, key in ipairs({ready, done, dead, wake}) do redis.call('ZCARD', key) end
for _, key in ipairs({jobs, bodies, attempts, errors}) do redis.call('HLEN', key) end
for _, key in ipairs({events, minutes}) do redis.call('XLEN', key) end
-- block: opening, limit, failed, header
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
if version and version ~= '2' and version ~= '1' then
  return redis.error_reply('ERR this queue has schema version ' .. version .. ', these scripts speak 1 and 2; nothing was changed')
end
if #ARGV < 2 or string.find(ARGV[1] .. ARGV[2], '%D') or #ARGV[1] > 13 or not limit or limit < 1 or limit > 1000 then
  return redis.error_reply('ERR limit is 1 to 1000, now_ms a whole number; nothing was changed')
end
local function failed(id, start, worker, why) -- the history of a job with one more failure
  local ok, list = pcall(cjson.decode, redis.call('HGET', errors, id) or '[]')
  if not ok or type(list) ~= 'table' or #list == 0 then list = {} end -- also one that is no list
  list[#list + 1] = {start, now_ms, worker, string.sub(why, 1, 2000)}
  if #list > 10 then table.remove(list, 1) end
  return cjson.encode(list)
end
local function header(record) -- priority, max_attempts and body_bytes; nothing where it cannot be read
  local priority, most, long = string.match(record, '^%d+ %S+ (%-?%d+) %S+ (%S+) %S+ %S+ %S+ (%S+) [^\n]*\n')
  if priority then return priority, most, long end
  if string.find(record, '^%d+:[^\n]*\n') then return '0', '-', '-' end
end
-- end
local function next_ms()
  local deadline = redis.call('ZRANGE', reserved, 0, 0, 'WITHSCORES')[2]
  return deadline and math.max(0, math.ceil(deadline - now_ms)) or -1
end
local ids = redis.call('ZRANGEBYSCORE', reserved, '-inf', now_ms, 'LIMIT', 0, limit)
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
  local readable = tried and most and tonumber(score)
  local why = readable and 'the lease expired' or 'the record of this job cannot be read'
  if readable and flag ~= 'c' and tonumber(tried) < (tonumber(most) or (tonumber(max_default) or 5)) then
    back[#back + 1], back[#back + 2] = score, id
  else
    deaths[#deaths + 1], deaths[#deaths + 2] = now_ms, id
  end
  if tried then
    new_lines[#new_lines + 1], new_lines[#new_lines + 2] = id, table.concat({tried, '-', score, now_ms, priority, flag, worker}, ' ')
  end
  reasons[#reasons + 1], reasons[#reasons + 2] = id, failed(id, tonumber(began) or now_ms, worker or '', why)
end

redis.call('ZREM', reserved, '') -- frees nothing: a drain may go on over maxmemory
redis.call('HSET', errors, unpack(reasons))
if #new_lines > 0 then redis.call('HSET', attempts, unpack(new_lines)) end
if #back > 0 then redis.call('ZADD', ready, unpack(back)) end
if #deaths > 0 then redis.call('ZADD', dead, unpack(deaths)) end
redis.call('ZREM', reserved, unpack(ids))

-- block: minute
local minute = now_ms - now_ms % 60000
if minute > (tonumber(last_minute) or 0) then
  note('HSET', meta, 'minute', minute)
  local counters = redis.pcall('HGETALL', meta)
  if #counters < 400 then note('XADD', minutes, 'MAXLEN', '~', 1440, minute .. '-0', unpack(counters)) end
end
-- end
note('HINCRBY', meta, 'expired', #ids)
if #deaths > 0 then note('HINCRBY', meta, 'dead', #deaths / 2) end
pcall(retain)
if #back > 0 then note('ZADD', wake, 0, 'wake') end
if watch == 'on' or (tonumber(watch) or 0) > now_ms then
  for _, id in ipairs(ids) do note('XADD', events, 'MAXLEN', '~', 10000, '*', 'verb', 'reap', 'id', id) end
end
return {'moved', #ids, #back / 2, #deaths / 2, next_ms()}
