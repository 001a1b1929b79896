-- What a queue holds at one instant.
--
-- -1 stands for none: `oldest_ms` is the age of the first ready job, `due_ms` and `deadline_ms` the instants of the next due
-- job and the next expiry, `paused_ms` when it was paused. `overdue` and `expired` count the late ones, `live` the workers
-- that are not late; above 500 all are counted as live.
--
-- KEYS     scheduled  zset    id by due (ms)
--          ready      zset    id by priority, then arrival
--          reserved   zset    id by lease deadline (ms)
--          done       zset    id by forget-at (ms)
--          dead       zset    id by died-at (ms)
--          jobs       hash    header and body by id
--          attempts   hash    what changes, by id
--          meta       hash    settings and counters
--          workers    hash    worker lines by name
-- ARGV     now_ms?   int     a test's clock; the server's when empty
-- returns  counts  (now_ms int, scheduled int, ready int, reserved int, done int, dead int, paused_ms int, oldest_ms int,
--                   due_ms int, deadline_ms int, overdue int, expired int, workers int, live int, version str,
--                   enqueued int, reserved_ever int, acked int, rejected int, dead_ever int, expired_ever int, pulled int,
--                   dispatched int, unnoted int, dead_max int)
local scheduled, ready, reserved, done, dead, jobs, attempts, meta, workers =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
if #ARGV < 1 or #ARGV[1] > 13 or string.find(ARGV[1], '%D') then return redis.error_reply('ERR now_ms is a whole number') end
local m = redis.call('HMGET', meta, 'version', 'paused', 'enqueued', 'reserved', 'acked', 'rejected', 'dead', 'expired',
  'pulled', 'dispatched', 'unnoted', 'dead_max')
local function count(i, default) return tonumber(m[i]) or default or 0 end
-- block: tallies
local function times(key) -- how many wait, the first instant, how many are late; commands are what this script costs
  local first = tonumber(redis.call('ZRANGE', key, '0', '0', 'WITHSCORES')[2])
  if not first then return 0, -1, 0 end
  return redis.call('ZCARD', key), first, first <= now_ms and redis.call('ZCOUNT', key, '-inf', string.format('%d', now_ms)) or 0
end
local function waiting_since(records, lines, id)
  local since = string.match(redis.call('HGET', lines, id) or '', '^%d+ %S+ %S+ (%d+) ')
  if not since then
    local enqueued, due = string.match(redis.call('HGET', records, id) or '', '^(%d+) ?(%d*)')
    since = math.max(tonumber(enqueued) or now_ms, tonumber(due) or 0)
  end
  return math.min(now_ms, tonumber(since))
end
local function alive(key, registered)
  if registered > 500 then return registered end
  local live = 0
  for _, line in ipairs(redis.call('HVALS', key)) do
    local beat, ttl = string.match(line, '^(%d+) (%d+) ')
    if beat and now_ms - tonumber(beat) <= tonumber(ttl) then live = live + 1 end
  end
  return live
end
-- end
local first, registered = redis.call('ZRANGE', ready, '0', '0')[1], redis.call('HLEN', workers)
local waiting, due, overdue = times(scheduled)
local leased, deadline, expired = times(reserved)
return {
  'counts', now_ms, waiting, first and redis.call('ZCARD', ready) or 0, leased, redis.call('ZCARD', done),
  redis.call('ZCARD', dead), count(2, -1), first and now_ms - waiting_since(jobs, attempts, first) or -1, due, deadline, overdue,
  expired, registered, registered > 0 and alive(workers, registered) or 0,
  m[1] or '', count(3), count(4), count(5), count(6), count(7), count(8), count(9), count(10), count(11), count(12, 100000),
}
