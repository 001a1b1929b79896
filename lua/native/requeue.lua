-- Requeue dead jobs, or done ones whose body was kept: they run again.
--
-- moves    dead done -> ready
-- writes   attempts meta events minutes wake
-- KEYS     scheduled ready reserved done dead jobs bodies attempts meta events minutes wake
-- ARGV     now_ms?        int    a test's clock; the server's when empty
--          keep_attempts? bool   continue to count the attempts, instead of starting at 0
--          each           (id bytes)
-- returns each  moved        requeued
--               wrong_place  (place str)  it is neither dead nor done
--               bodyless     its body was not kept, it cannot run again
--               gone         no such job
-- include: keys, args
local version, seq, watch, last_minute = unpack(redis.call('HMGET', meta, 'version', 'seq', 'events', 'minute'))
-- include: key_types(wake jobs bodies attempts events minutes), opening, sequence, place_of, header, batch
local outcomes, arrivals, lines, seen, next_seq = {}, {}, {}, {}, tonumber(seq or 0)
local leaves = {done = {}, dead = {}}
for at = 3, #ARGV do
  local id = ARGV[at]
  local place = seen[id] or place_of(id)
  local priority, _, long = header(redis.call('HGET', jobs, id) or '')
  if not leaves[place] then
    outcomes[#outcomes + 1] = place and {'wrong_place', place} or 'gone'
  elseif not priority or (long ~= '-' and redis.call('HEXISTS', bodies, id) == 0) then
    outcomes[#outcomes + 1] = 'bodyless'
  else
    local tried, own = string.match(redis.call('HGET', attempts, id) or '', '^(%d+) %S+ %S+ %S+ (%S+) ')
    outcomes[#outcomes + 1], seen[id], next_seq = 'moved', 'ready', next_seq + 1
    local score = string.format('%.0f', (tonumber(own) or tonumber(priority)) * 2 ^ 40 + next_seq)
    arrivals[#arrivals + 1], arrivals[#arrivals + 2] = score, id
    lines[#lines + 1], lines[#lines + 2] =
      id, table.concat({keep_attempts and tried or 0, '-', score, now_ms, own or '-', '-', ''}, ' ')
    table.insert(leaves[place], id)
  end
end
if #arrivals == 0 then return outcomes end

redis.call('ZREM', dead, '') -- removes nothing, but lets the drain continue over maxmemory
redis.call('HSET', meta, 'seq', string.format('%.0f', next_seq))
redis.call('HSET', attempts, unpack(lines))
redis.call('ZADD', ready, unpack(arrivals))
for place, ids in pairs(leaves) do
  if #ids > 0 then redis.call('ZREM', places[place], unpack(ids)) end
end
-- include: minute, record_events
note('HINCRBY', meta, 'requeued', #arrivals / 2)
note('ZADD', wake, 0, 'wake')
record_events('requeue', arrivals, 2, 2)
return outcomes
