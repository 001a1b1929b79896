-- Cancel leased jobs: ask their workers to stop.
--
-- A worker learns of it when it extends the lease. A cancelled job is not retried: after a reject or an expired lease
-- it goes to dead.
--
-- writes   attempts meta events minutes
-- KEYS     scheduled ready reserved done dead attempts meta events minutes
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          each      (id bytes, token? str)
-- returns each  asked        asked to cancel; its worker reads it when it next extends the lease
--               stale        another lease holds it now
--               wrong_place  (place str)  no worker holds it: kill or delete it
--               gone         no such job
-- include: keys
local version, watch, last_minute = unpack(redis.call('HMGET', meta, 'version', 'events', 'minute'))
-- include: key_types(attempts events minutes), opening, place_of, batch
local outcomes, lines = {}, {}
for at = 2, #ARGV, 2 do
  local id = ARGV[at]
  local place = place_of(id)
  local line = redis.call('HGET', attempts, id) or ''
  local tried, token, score, began, priority, worker = string.match(line, '^(%d+) (%S+) (%S+) (%S+) (%S+) %S (.*)$')
  if place ~= 'reserved' or not tried then
    outcomes[#outcomes + 1] = place and {'wrong_place', place} or 'gone'
  elseif ARGV[at + 1] ~= '' and ARGV[at + 1] ~= token then
    outcomes[#outcomes + 1] = 'stale'
  else
    outcomes[#outcomes + 1] = 'asked'
    lines[#lines + 1], lines[#lines + 2] = id, table.concat({tried, token, score, began, priority, 'c', worker}, ' ')
  end
end
if #lines == 0 then return outcomes end

redis.call('HDEL', attempts, '') -- removes nothing, but lets the script continue over maxmemory
redis.call('HSET', attempts, unpack(lines))
-- include: minute, record_events
note('HINCRBY', meta, 'cancelled', #lines / 2)
record_events('cancel', lines, 1, 2)
return outcomes
