-- List workers that hold leases but send no heartbeats.
--
-- The `limit` leases that end first are read. A worker is silent if its last heartbeat is older than its `ttl_ms`, or
-- if it never sent one (`beat_ms` -1) and has held a lease for longer than `grace_ms`. `since_ms` is the start of its
-- first lease.
--
-- KEYS     reserved attempts workers
-- ARGV     now_ms?   int   a test's clock; the server's when empty
--          limit     int   how many leases to read, 1 to 1000
--          grace_ms  int   how long a worker without any heartbeat may hold a lease
-- returns  silent  (now_ms int) rows (worker bytes, leases int, beat_ms int, since_ms int)  a row per silent worker
-- include: keys, args
if #ARGV < 3 or string.find(ARGV[1] .. ARGV[2] .. ARGV[3], '%D') or #ARGV[1] > 13 or not limit or limit < 1 or limit > 1000
  or not grace_ms then
  return redis.error_reply('ERR limit is 1 to 1000, now_ms and grace_ms are whole numbers')
end
-- include: server_time
local ids = redis.call('ZRANGE', reserved, 0, limit - 1)
if #ids == 0 then return {'silent', now_ms, {}} end
local holders, names = {}, {}
for _, line in ipairs(redis.call('HMGET', attempts, unpack(ids))) do
  local at, name = string.match(line or '', '^%d+ %S+ %S+ (%d+) %S+ %S+ (.*)$')
  at = tonumber(at)
  if at and not holders[name] then
    holders[name] = {leases = 0, old = 0, since = at}
    names[#names + 1] = name
  end
  if at then
    local holder = holders[name]
    holder.leases, holder.since = holder.leases + 1, math.min(holder.since, at)
    if now_ms - at > grace_ms then holder.old = holder.old + 1 end
  end
end
if #names == 0 then return {'silent', now_ms, {}} end
local rows = {}
for i, line in ipairs(redis.call('HMGET', workers, unpack(names))) do
  local holder = holders[names[i]]
  local beat, ttl = string.match(line or '', '^(%d+) (%d+) ')
  beat, ttl = tonumber(beat), tonumber(ttl)
  if beat and now_ms - beat > ttl then
    rows[#rows + 1] = {names[i], holder.leases, beat, holder.since}
  elseif not beat and holder.old > 0 then
    rows[#rows + 1] = {names[i], holder.old, -1, holder.since}
  end
end
return {'silent', now_ms, rows}
