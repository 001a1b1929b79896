-- Reject leased jobs, which failed: each is retried after its backoff, or dies when its attempts are used up.
--
-- The wait is half of min(cap, base * 2^(attempt - 1)) plus a part of the other half. The token decides this part, so
-- that waits differ without a random number. A cancelled job dies at once.
--
-- moves    reserved -> scheduled | dead
-- forgets  dead
-- writes   jobs bodies attempts errors meta events minutes wake
-- KEYS     scheduled reserved dead jobs bodies attempts errors meta events minutes wake
-- ARGV     now_ms?    int    a test's clock; the server's when empty
--          final?     bool   no further attempt
--          delay_ms?  int    the wait, instead of the backoff
--          each       (id bytes, token str, error? bytes)
-- returns each  moved  (place str)  rejected
--               stale  this lease is over; another worker may hold the job
--               gone   no such job
-- include: keys, args
local version, max_default, base_default, cap_default, dead_max, dead_ttl, watch, last_minute = unpack(redis.call(
  'HMGET', meta, 'version', 'max_attempts', 'backoff_ms', 'backoff_cap_ms', 'dead_max', 'dead_ttl_ms', 'events', 'minute'))
-- include: key_types(scheduled reserved dead wake bodies errors events minutes), opening, failed, batch_size
if string.find(ARGV[1] .. ARGV[3], '%D') or #ARGV[1] > 13 or #ARGV[3] > 13 then
  return redis.error_reply('ERR delay_ms and now_ms are whole numbers, not negative; nothing was changed')
end
local outcomes, retries, deaths, lines, reasons, moved_ids, seen, soonest = {}, {}, {}, {}, {}, {}, {}, math.huge
for at = 4, #ARGV, 3 do
  local id, why = ARGV[at], ARGV[at + 2]
  local line, record = redis.call('HGET', attempts, id), redis.call('HGET', jobs, id)
  local tried, token, score, began, priority, flag, worker =
    string.match(line or '', '^(%d+) (%S+) (%S+) (%S+) (%S+) (%S) (.*)$')
  if token ~= ARGV[at + 1] or seen[id] or not redis.call('ZSCORE', reserved, id) then
    outcomes[#outcomes + 1] = (record or line) and 'stale' or 'gone'
  else
    local most, base, cap = string.match(record or '', '^%d+ %S+ %S+ %S+ (%S+) (%S+) (%S+) ')
    most = tonumber(most) or (tonumber(max_default) or 5)
    base, cap = tonumber(base) or (tonumber(base_default) or 1000), tonumber(cap) or (tonumber(cap_default) or 3600000)
    local wait = math.min(cap, base * 2 ^ (math.min(tonumber(tried), 40) - 1))
    local due = now_ms + (delay_ms or math.floor(wait / 2 + wait / 2 * ((tonumber(string.sub(token, -6)) or 0) % 1009) / 1009))
    local dies = final or flag == 'c' or tonumber(tried) >= most or not record
    seen[id], moved_ids[#moved_ids + 1] = true, id
    outcomes[#outcomes + 1] = {'moved', dies and 'dead' or 'scheduled'}
    local to = dies and deaths or retries
    to[#to + 1], to[#to + 2] = dies and now_ms or due, id
    if not dies then soonest = math.min(soonest, due) end
    lines[#lines + 1], lines[#lines + 2] = id, table.concat({tried, '-', score, dies and now_ms or due, priority, flag, worker}, ' ')
    reasons[#reasons + 1], reasons[#reasons + 2] = id, failed(id, tonumber(began), worker, why)
  end
end
if #moved_ids == 0 then return outcomes end
local head = redis.call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')

redis.call('ZREM', reserved, '') -- removes nothing, but lets the drain continue over maxmemory
redis.call('HSET', errors, unpack(reasons))
redis.call('HSET', attempts, unpack(lines))
if #retries > 0 then redis.call('ZADD', scheduled, unpack(retries)) end
if #deaths > 0 then redis.call('ZADD', dead, unpack(deaths)) end
redis.call('ZREM', reserved, unpack(moved_ids))
-- include: forget, minute, record_events
note('HINCRBY', meta, 'rejected', #moved_ids)
if #deaths > 0 then
  note('HINCRBY', meta, 'dead', #deaths / 2)
  pcall(forget, dead, now_ms - (tonumber(dead_ttl) or 2592000000), (tonumber(dead_max) or 100000), 10 + #deaths)
end
if soonest < tonumber(head[2] or math.huge) then note('ZADD', wake, 0, 'wake') end
record_events('reject', moved_ids)
return outcomes
