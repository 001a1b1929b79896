-- Bump ready jobs: the first of them is the next one to run, the others follow in the order given.
--
-- Their priority does not change, and applies again to later attempts.
--
-- writes   ready attempts meta events minutes
-- KEYS     scheduled ready reserved done dead jobs attempts meta events minutes
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          each      (id bytes)
-- returns each  changed      bumped
--               wrong_place  (place str)  it is not ready
--               gone         no such job
-- include: keys
local version, watch, last_minute = unpack(redis.call('HMGET', meta, 'version', 'events', 'minute'))
-- include: key_types(jobs attempts events minutes), opening, place_of, batch
local outcomes, bumped, seen = {}, {}, {}
for at = 2, #ARGV do
  local id = ARGV[at]
  local place = place_of(id)
  if place ~= 'ready' then
    outcomes[#outcomes + 1] = place and {'wrong_place', place} or 'gone'
  else
    outcomes[#outcomes + 1] = 'changed'
    if not seen[id] then bumped[#bumped + 1], seen[id] = id, true end
  end
end
if #bumped == 0 then return outcomes end
-- The lowest regular score is -2^52 for priority -4096, minus the number of bumps. A much lower score was written by another program and is ignored.
local lowest = redis.call('ZRANGEBYSCORE', ready, '-5629499534213120', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
local next_score = math.min(tonumber(lowest or 0), 2 ^ 52) - #bumped
local scores, lines = {}, {}
for at, id in ipairs(bumped) do
  local score = string.format('%.0f', next_score + at - 1)
  scores[2 * at - 1], scores[2 * at] = score, id
  local tried, token, since, rest = string.match(redis.call('HGET', attempts, id) or '', '^(%d+) (%S+) %S+ (%S+) (.*)$')
  if not tried then
    local enqueued, due = string.match(redis.call('HGET', jobs, id) or '', '^(%d+) ?(%d*)')
    tried, token, since, rest = 0, '-', math.max(tonumber(enqueued or 0), tonumber(due or '') or 0), '- - '
  end
  lines[2 * at - 1], lines[2 * at] = id, table.concat({tried, token, score, since, rest}, ' ')
end

redis.call('ZREM', ready, '') -- removes nothing, but lets the drain continue over maxmemory
redis.call('HSET', attempts, unpack(lines))
redis.call('ZADD', ready, unpack(scores))
-- include: minute, record_events
note('HINCRBY', meta, 'bumped', #bumped)
record_events('bump', bumped)
return outcomes
