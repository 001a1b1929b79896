-- Purge a place, oldest first and in chunks; without a place, remove the whole queue at once.
--
-- The whole queue, and the place reserved, are refused while a lease is live, unless forced.
--
-- moves    scheduled ready reserved done dead ->
-- writes   jobs bodies attempts errors meta events minutes workers wake
-- KEYS     scheduled  zset    id by due (ms)
--          ready      zset    id by priority, then arrival
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
--          workers    hash    worker lines by name
--          wake       zset    the marker that blocked consumers wait on
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          place?    str     which; the whole queue when empty
--          limit     int     how many jobs in this call, 1 to 1000
--          force?    bool    even while leases are live
-- returns  moved     (moved int, left int)  purged
--          empty     nothing is there
--          reserved  (leases int)  workers hold jobs; force it
local scheduled, ready, reserved, done, dead, jobs, bodies, attempts, errors, meta, events, minutes, workers, wake =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[13], KEYS[14]
local place, limit, force = ARGV[2], tonumber(ARGV[3]), ARGV[4] == '1'
local version, last_minute = unpack(redis.call('HMGET', meta, 'version', 'minute'))
for _, key in ipairs({scheduled, ready, reserved, done, dead, wake}) do redis.call('ZCARD', key) end
for _, key in ipairs({jobs, bodies, attempts, errors, workers}) do redis.call('HLEN', key) end
for _, key in ipairs({events, minutes}) do redis.call('XLEN', key) end
-- block: opening
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
if version and version ~= '2' and version ~= '1' then
  return redis.error_reply('ERR this queue has schema version ' .. version .. ', these scripts speak 1 and 2; nothing was changed')
end
-- end
if #ARGV < 4 or string.find(ARGV[1] .. ARGV[3], '%D') or #ARGV[1] > 13 or not limit or limit < 1 or limit > 1000 then
  return redis.error_reply('ERR limit is 1 to 1000, now_ms a whole number; nothing was changed')
end
local places = {scheduled = scheduled, ready = ready, reserved = reserved, done = done, dead = dead}
if place ~= '' and not places[place] then
  return redis.error_reply('ERR the place is scheduled, ready, reserved, done, dead, or empty for all; nothing was changed')
end
local leases = redis.call('ZCOUNT', reserved, '(' .. now_ms, '+inf')
if leases > 0 and not force and (place == '' or place == 'reserved') then return {'reserved', leases} end
if place == '' then
  local jobs_left = 0
  for _, key in pairs(places) do jobs_left = jobs_left + redis.call('ZCARD', key) end
  local removed = redis.call('UNLINK', unpack(KEYS))
  if removed == 0 then return {'empty'} end
  return {'moved', jobs_left, 0}
end

local ids = redis.call('ZRANGE', places[place], 0, limit - 1)
if #ids == 0 then return {'empty'} end
redis.call('ZREM', places[place], unpack(ids))
for _, key in ipairs({jobs, bodies, attempts, errors}) do redis.call('HDEL', key, unpack(ids)) end

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
note('HINCRBY', meta, 'purged', #ids)
return {'moved', #ids, redis.call('ZCARD', places[place])}
