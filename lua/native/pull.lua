-- Pull the next ready jobs out of the queue: at most once, with no lease and no second try.
--
-- A job whose record cannot be read goes to dead and does not stop the batch.
--
-- moves    ready -> | dead
-- writes   jobs bodies attempts errors meta events minutes
-- KEYS     ready      zset    id by priority, then arrival
--          dead       zset    id by died-at (ms)
--          jobs       hash    header and body by id
--          bodies     hash    long bodies by id
--          attempts   hash    what changes, by id
--          errors     hash    failed attempts by id
--          meta       hash    settings and counters
--          events     stream  what happened, while watched
--          minutes    stream  counters per minute
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          limit     int     how many at most, 1 to 1000
-- returns  moved   rows (id bytes, record bytes, body bytes)  pulled
--          empty   nothing is ready
--          paused  the queue is paused
local ready, dead, jobs, bodies, attempts, errors, meta, events, minutes =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local limit = tonumber(ARGV[2])
local version, paused, watch, last_minute = unpack(redis.call('HMGET', meta, 'version', 'paused', 'events', 'minute'))
for _, key in ipairs({dead}) do redis.call('ZCARD', key) end
for _, key in ipairs({jobs, bodies, attempts, errors}) do redis.call('HLEN', key) end
for _, key in ipairs({events, minutes}) do redis.call('XLEN', key) end
-- block: opening, limit, header
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
if version and version ~= '2' and version ~= '1' then
  return redis.error_reply('ERR this queue has schema version ' .. version .. ', these scripts speak 1 and 2; nothing was changed')
end
if #ARGV < 2 or string.find(ARGV[1] .. ARGV[2], '%D') or #ARGV[1] > 13 or not limit or limit < 1 or limit > 1000 then
  return redis.error_reply('ERR limit is 1 to 1000, now_ms a whole number; nothing was changed')
end
local function header(record) -- priority, max_attempts and body_bytes; nothing where it cannot be read
  local priority, most, long = string.match(record, '^%d+ %S+ (%-?%d+) %S+ (%S+) %S+ %S+ %S+ (%S+) [^\n]*\n')
  if priority then return priority, most, long end
  if string.find(record, '^%d+:[^\n]*\n') then return '0', '-', '-' end
end
-- end
local ids = redis.call('ZRANGE', ready, 0, limit - 1)
if paused or #ids == 0 then return {paused and 'paused' or 'empty'} end

local records = redis.call('HMGET', jobs, unpack(ids))
local rows, taken, deaths, reasons = {}, {}, {}, {}
for i, id in ipairs(ids) do
  local record, body = records[i] or '', ''
  local _, _, long = header(record)
  if long and long ~= '-' then body = redis.call('HGET', bodies, id) end
  if long and body then
    taken[#taken + 1], rows[#rows + 1] = id, {id, record, body}
  else
    deaths[#deaths + 1], deaths[#deaths + 2] = now_ms, id
    reasons[#reasons + 1], reasons[#reasons + 2] = id, cjson.encode({{now_ms, now_ms, '', 'the record of this job cannot be read'}})
  end
end

redis.call('ZREM', ready, '') -- frees nothing: a drain may go on over maxmemory
if #deaths > 0 then
  redis.call('HSET', errors, unpack(reasons))
  redis.call('ZADD', dead, unpack(deaths))
end
redis.call('ZREM', ready, unpack(ids))
if #taken > 0 then
  for _, key in ipairs({jobs, bodies, attempts, errors}) do redis.call('HDEL', key, unpack(taken)) end
end

-- block: note, minute
local function note(...) -- bookkeeping never fails the verb; what failed is counted
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then redis.pcall('HINCRBY', meta, 'unnoted', 1) end
end
local minute = now_ms - now_ms % 60000
if minute > (tonumber(last_minute) or 0) then
  note('HSET', meta, 'minute', minute)
  local counters = redis.pcall('HGETALL', meta)
  if #counters < 400 then note('XADD', minutes, 'MAXLEN', '~', 1440, minute .. '-0', unpack(counters)) end
end
-- end
note('HINCRBY', meta, 'pulled', #taken)
if #deaths > 0 then note('HINCRBY', meta, 'dead', #deaths / 2) end
if watch == 'on' or (tonumber(watch) or 0) > now_ms then
  for _, id in ipairs(ids) do note('XADD', events, 'MAXLEN', '~', 10000, '*', 'verb', 'pull', 'id', id) end
end
if #rows == 0 then return {'empty'} end
return {'moved', rows}
