-- Who holds leases and does not beat.
--
-- The leases that end first are looked at, `limit` of them. A worker is silent when its last beat is older than it said
-- (`ttl_ms`), or when it never beat (`beat_ms` -1) and has held a lease for longer than `grace_ms`. `since_ms` is when the
-- first of its leases began.
--
-- KEYS     reserved  zset  id by lease deadline (ms)
--          attempts  hash  what changes, by id
--          workers   hash  worker lines by name
-- ARGV     now_ms?   int   a test's clock; the server's when empty
--          limit     int   leases that are looked at, 1 to 1000
--          grace_ms  int   how long a lease may be held by a worker that never beat
-- returns  silent  (now_ms int) rows (worker bytes, leases int, beat_ms int, since_ms int)  a row per silent worker
local reserved, attempts, workers = KEYS[1], KEYS[2], KEYS[3]
local limit, grace_ms = tonumber(ARGV[2]), tonumber(ARGV[3])
if #ARGV < 3 or string.find(ARGV[1] .. ARGV[2] .. ARGV[3], '%D') or #ARGV[1] > 13 or not limit or limit < 1 or limit > 1000
  or not grace_ms then
  return redis.error_reply('ERR limit is 1 to 1000, now_ms and grace_ms are whole numbers')
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local ids = redis.call('ZRANGE', reserved, 0, limit - 1)
if #ids == 0 then return {'silent', now_ms, {}} end
local held, names = {}, {}
for _, line in ipairs(redis.call('HMGET', attempts, unpack(ids))) do
  local at, name = string.match(line or '', '^%d+ %S+ %S+ (%d+) %S+ %S+ (.*)$')
  at = tonumber(at)
  if at and not held[name] then
    held[name] = {leases = 0, old = 0, since = at}
    names[#names + 1] = name
  end
  if at then
    local one = held[name]
    one.leases, one.since = one.leases + 1, math.min(one.since, at)
    if now_ms - at > grace_ms then one.old = one.old + 1 end
  end
end
if #names == 0 then return {'silent', now_ms, {}} end
local rows = {}
for i, line in ipairs(redis.call('HMGET', workers, unpack(names))) do
  local one = held[names[i]]
  local beat, ttl = string.match(line or '', '^(%d+) (%d+) ')
  beat, ttl = tonumber(beat), tonumber(ttl)
  if beat and now_ms - beat > ttl then
    rows[#rows + 1] = {names[i], one.leases, beat, one.since}
  elseif not beat and one.old > 0 then
    rows[#rows + 1] = {names[i], one.old, -1, one.since}
  end
end
return {'silent', now_ms, rows}
