-- Count the jobs of many native queues at one instant: `native/counts.lua` for all of them in one call.
--
-- `since_ms` is the time since when the first ready job waits; -1 means none. The other columns are those of `native/counts.lua`. A
-- queue that has only ready jobs has a `stamp`: their number, the first of them, and the fields that a put, a lease and a pause
-- change. A client that reads equal values with plain commands later knows that all columns except the times are still valid.
--
-- KEYS     each (scheduled zset, ready zset, reserved zset, done zset, dead zset, jobs hash, attempts hash, meta hash,
--                workers hash)  the keys of a native queue, `rqtui:{<queue>}:` and these names
-- ARGV     now_ms?   int     a test's clock; the server's when empty
-- returns  counted  (now_ms int)
--                   rows (scheduled int, ready int, reserved int, done int, dead int, paused_ms int, since_ms int,
--                   due_ms int, deadline_ms int, overdue int, expired int, workers int, live int, enqueued int,
--                   reserved_ever int, acked int, rejected int, dead_ever int, expired_ever int, pulled int,
--                   dispatched int, unnoted int, dead_max int, stamp bytes)  a row per queue, in the order
--                   of the keys
if #ARGV < 1 or #ARGV[1] > 13 or string.find(ARGV[1], '%D') then return redis.error_reply('ERR now_ms is a whole number') end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
-- include: tallies
local rows = {}
local function add_queue_row(at)
  local ready, meta = KEYS[at + 1], KEYS[at + 7]
  local first = redis.call('ZRANGE', ready, '0', '0')[1]
  local count = first and redis.call('ZCARD', ready) or 0
  -- One EXISTS for the other places, which are empty in a queue of waiting jobs: it halves the cost of the script.
  local is_waiting = redis.call('EXISTS', KEYS[at], KEYS[at + 2], KEYS[at + 3], KEYS[at + 4], KEYS[at + 8]) == 0
  local m = redis.call('HMGET', meta, 'paused', 'enqueued', 'reserved', 'acked', 'rejected', 'dead', 'expired',
    'pulled', 'dispatched', 'unnoted', 'dead_max', 'token')
  local scheduled, due, overdue, reserved, deadline, expired, done, dead, registered, live = 0, -1, 0, 0, -1, 0, 0, 0, 0, 0
  if not is_waiting then
    scheduled, due, overdue = times(KEYS[at])
    reserved, deadline, expired = times(KEYS[at + 2])
    done, dead = redis.call('ZCARD', KEYS[at + 3]), redis.call('ZCARD', KEYS[at + 4])
    registered = redis.call('HLEN', KEYS[at + 8])
    live = registered > 0 and alive(KEYS[at + 8], registered) or 0
  end
  rows[#rows + 1] = {
    scheduled, count, reserved, done, dead, tonumber(m[1]) or -1,
    first and waiting_since(KEYS[at + 5], KEYS[at + 6], first) or -1, due, deadline, overdue, expired, registered, live,
    tonumber(m[2]) or 0, tonumber(m[3]) or 0,
    tonumber(m[4]) or 0, tonumber(m[5]) or 0, tonumber(m[6]) or 0, tonumber(m[7]) or 0, tonumber(m[8]) or 0,
    tonumber(m[9]) or 0, tonumber(m[10]) or 0, tonumber(m[11]) or 100000,
    is_waiting and table.concat({count, m[12] or '', m[1] or '', m[2] or '', first or ''}, ' ') or '',
  }
end
for at = 1, #KEYS, 9 do add_queue_row(at) end
return {'counted', now_ms, rows}
