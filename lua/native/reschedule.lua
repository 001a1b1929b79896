-- Reschedule scheduled or ready jobs: give them another due time; a time in the past makes them ready.
--
-- moves    scheduled ready -> scheduled | ready
-- writes   attempts meta events minutes wake
-- KEYS     scheduled ready reserved done dead jobs attempts meta events minutes wake
-- ARGV     now_ms?    int    a test's clock; the server's when empty
--          due_ms?    int    the new due time
--          delay_ms?  int    or the delay from now
--          each       (id bytes)
-- returns each  moved        (place str)  rescheduled
--               wrong_place  (place str)  it is neither scheduled nor ready
--               gone         no such job
-- include: keys, args
local version, seq, watch, last_minute = unpack(redis.call('HMGET', meta, 'version', 'seq', 'events', 'minute'))
-- include: key_types(wake jobs attempts events minutes), opening, sequence, place_of, batch_size
local due = delay_ms and now_ms + delay_ms or due_ms
if string.find(ARGV[1] .. ARGV[2] .. ARGV[3], '%D') or math.max(#ARGV[1], #ARGV[2], #ARGV[3]) > 13
  or not due or due > 9007199254740 then
  return redis.error_reply('ERR give due_ms or delay_ms, whole numbers, not negative; nothing was changed')
end
local outcomes, entries, lines, next_seq = {}, {}, {}, tonumber(seq or 0)
local leaves = {scheduled = {}, ready = {}}
local target = due > now_ms and 'scheduled' or 'ready'
for at = 4, #ARGV do
  local id = ARGV[at]
  local place = place_of(id)
  if not leaves[place] then
    outcomes[#outcomes + 1] = place and {'wrong_place', place} or 'gone'
  else
    local line = redis.call('HGET', attempts, id)
    local priority = string.match(redis.call('HGET', jobs, id) or '', '^%d+ %S+ (%-?%d+) ')
    local tried, token, own, rest = string.match(line or '', '^(%d+) (%S+) %S+ %S+ (%S+) (.*)$')
    outcomes[#outcomes + 1], next_seq = {'moved', target}, next_seq + 1
    local score = string.format('%.0f', (tonumber(own) or tonumber(priority or 0)) * 2 ^ 40 + next_seq)
    entries[#entries + 1], entries[#entries + 2] = target == 'ready' and score or due, id
    lines[#lines + 1], lines[#lines + 2] =
      id, tried and table.concat({tried, token, score, due, own, rest}, ' ') or '0 - ' .. score .. ' ' .. due .. ' - - '
    if place ~= target then table.insert(leaves[place], id) end
  end
end
if #entries == 0 then return outcomes end
local head = redis.call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')

redis.call('ZREM', scheduled, '') -- removes nothing, but lets the drain continue over maxmemory
redis.call('HSET', meta, 'seq', string.format('%.0f', next_seq))
redis.call('HSET', attempts, unpack(lines))
redis.call('ZADD', places[target], unpack(entries))
for place, ids in pairs(leaves) do
  if #ids > 0 then redis.call('ZREM', places[place], unpack(ids)) end
end
-- include: minute, record_events
note('HINCRBY', meta, 'rescheduled', #entries / 2)
if target == 'ready' or due < tonumber(head[2] or math.huge) then note('ZADD', wake, 0, 'wake') end
record_events('reschedule', entries, 2, 2)
return outcomes
