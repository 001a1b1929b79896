-- Reprioritise scheduled or ready jobs.
--
-- Within the new priority, jobs keep the order of their arrival.
--
-- writes   ready attempts meta events minutes
-- KEYS     scheduled ready reserved done dead jobs attempts meta events minutes
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          priority  int     -4096 to 4095, lower first
--          each      (id bytes)
-- returns each  changed      reprioritised
--               wrong_place  (place str)  it is neither scheduled nor ready
--               gone         no such job
-- include: keys, args
local version, watch, last_minute = unpack(redis.call('HMGET', meta, 'version', 'events', 'minute'))
-- include: key_types(jobs attempts events minutes), opening, place_of, batch
if not string.match(ARGV[2], '^%-?%d+$') or priority < -4096 or priority > 4095 then
  return redis.error_reply('ERR priority is a whole number from -4096 to 4095; nothing was changed')
end
local outcomes, scores, lines, changed = {}, {}, {}, {}
for at = 3, #ARGV do
  local id = ARGV[at]
  local place = place_of(id)
  if place ~= 'scheduled' and place ~= 'ready' then
    outcomes[#outcomes + 1] = place and {'wrong_place', place} or 'gone'
  else
    outcomes[#outcomes + 1], changed[#changed + 1] = 'changed', id
    local tried, token, score, at_ms, rest = string.match(redis.call('HGET', attempts, id) or '', '^(%d+) (%S+) (%S+) (%S+) %S+ (.*)$')
    if place == 'ready' then
      local sequence = redis.call('ZSCORE', ready, id) % 2 ^ 40
      if sequence ~= sequence then sequence = 0 end -- An infinite score, which another program wrote, gives NaN here.
      score = string.format('%.0f', priority * 2 ^ 40 + sequence)
      scores[#scores + 1], scores[#scores + 2] = score, id
    end
    if not tried then
      local enqueued, due = string.match(redis.call('HGET', jobs, id) or '', '^(%d+) ?(%d*)')
      tried, token, at_ms, rest = 0, '-', math.max(tonumber(enqueued or 0), tonumber(due or '') or 0), '- '
    end
    lines[#lines + 1], lines[#lines + 2] = id, table.concat({tried, token, score or 0, at_ms, priority, rest}, ' ')
  end
end
if #changed == 0 then return outcomes end

redis.call('ZREM', ready, '') -- removes nothing, but lets the drain continue over maxmemory
redis.call('HSET', attempts, unpack(lines))
if #scores > 0 then redis.call('ZADD', ready, unpack(scores)) end
-- include: minute, record_events
note('HINCRBY', meta, 'reprioritised', #changed)
record_events('reprioritise', changed)
return outcomes
