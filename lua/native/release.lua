-- Release leased jobs unharmed: to their old position in ready, or to scheduled after a delay.
--
-- The attempt does not count.
--
-- moves    reserved -> ready | scheduled
-- writes   attempts meta events minutes wake
-- KEYS     scheduled ready reserved jobs attempts meta events minutes wake
-- ARGV     now_ms?    int    a test's clock; the server's when empty
--          delay_ms?  int    wait at least this long
--          each       (id bytes, token str)
-- returns each  moved  (place str)  released
--               stale  this lease is over; another worker may hold the job
--               gone   no such job
-- include: keys
local delay_ms = tonumber(ARGV[2]) or 0
local version, watch, last_minute = unpack(redis.call('HMGET', meta, 'version', 'events', 'minute'))
-- include: key_types(scheduled ready reserved wake jobs attempts events minutes), opening, batch_size
if string.find(ARGV[1] .. ARGV[2], '%D') or #ARGV[1] > 13 or #ARGV[2] > 13 then
  return redis.error_reply('ERR delay_ms and now_ms are whole numbers, not negative; nothing was changed')
end
local place, due = delay_ms > 0 and 'scheduled' or 'ready', now_ms + delay_ms
local outcomes, back, lines, moved_ids, seen = {}, {}, {}, {}, {}
for at = 3, #ARGV, 2 do
  local id = ARGV[at]
  local line = redis.call('HGET', attempts, id)
  local tried, token, score, _, priority, flag, worker = string.match(line or '', '^(%d+) (%S+) (%S+) (%S+) (%S+) (%S) (.*)$')
  if token ~= ARGV[at + 1] or seen[id] or not redis.call('ZSCORE', reserved, id) then
    outcomes[#outcomes + 1] = (line or redis.call('HEXISTS', jobs, id) == 1) and 'stale' or 'gone'
  else
    outcomes[#outcomes + 1], seen[id], moved_ids[#moved_ids + 1] = {'moved', place}, true, id
    back[#back + 1], back[#back + 2] = place == 'ready' and score or due, id
    lines[#lines + 1], lines[#lines + 2] =
      id, table.concat({math.max(0, tonumber(tried) - 1), '-', score, due, priority, flag, worker}, ' ')
  end
end
if #moved_ids == 0 then return outcomes end
local head = redis.call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')

redis.call('ZREM', reserved, '') -- removes nothing, but lets the drain continue over maxmemory
redis.call('HSET', attempts, unpack(lines))
redis.call('ZADD', place == 'ready' and ready or scheduled, unpack(back))
redis.call('ZREM', reserved, unpack(moved_ids))
-- include: minute, record_events
note('HINCRBY', meta, 'released', #moved_ids)
if place == 'ready' or due < tonumber(head[2] or math.huge) then note('ZADD', wake, 0, 'wake') end
record_events('release', moved_ids)
return outcomes
