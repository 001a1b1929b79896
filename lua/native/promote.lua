-- Promote scheduled jobs: make them ready now.
--
-- moves    scheduled -> ready
-- writes   attempts meta events minutes wake
-- KEYS     scheduled ready reserved done dead jobs attempts meta events minutes wake
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          each      (id bytes)
-- returns each  moved        promoted
--               wrong_place  (place str)  it is not scheduled
--               gone         no such job
-- include: keys
local version, seq, watch, last_minute = unpack(redis.call('HMGET', meta, 'version', 'seq', 'events', 'minute'))
-- include: key_types(wake jobs attempts events minutes), opening, sequence, place_of, batch
local outcomes, moved_ids, arrivals, lines, seen, next_seq = {}, {}, {}, {}, {}, tonumber(seq or 0)
for at = 2, #ARGV do
  local id = ARGV[at]
  local place = seen[id] or place_of(id)
  if place ~= 'scheduled' then
    outcomes[#outcomes + 1] = place and {'wrong_place', place} or 'gone'
  else
    -- The line of attempts has a priority if `reprioritise` changed it; else the record has it.
    local line = redis.call('HGET', attempts, id)
    local priority = string.match(redis.call('HGET', jobs, id) or '', '^%d+ %S+ (%-?%d+) ')
    local tried, token, own, rest = string.match(line or '', '^(%d+) (%S+) %S+ %S+ (%S+) (.*)$')
    outcomes[#outcomes + 1], moved_ids[#moved_ids + 1], seen[id], next_seq = 'moved', id, 'ready', next_seq + 1
    local score = string.format('%.0f', (tonumber(own) or tonumber(priority or 0)) * 2 ^ 40 + next_seq)
    arrivals[#arrivals + 1], arrivals[#arrivals + 2] = score, id
    lines[#lines + 1], lines[#lines + 2] =
      id, tried and table.concat({tried, token, score, now_ms, own, rest}, ' ') or '0 - ' .. score .. ' ' .. now_ms .. ' - - '
  end
end
if #moved_ids == 0 then return outcomes end

redis.call('ZREM', scheduled, '') -- removes nothing, but lets the drain continue over maxmemory
redis.call('HSET', meta, 'seq', string.format('%.0f', next_seq))
redis.call('HSET', attempts, unpack(lines))
redis.call('ZADD', ready, unpack(arrivals))
redis.call('ZREM', scheduled, unpack(moved_ids))
-- include: minute, record_events
note('HINCRBY', meta, 'promoted', #moved_ids)
note('ZADD', wake, 0, 'wake')
record_events('promote', moved_ids)
return outcomes
