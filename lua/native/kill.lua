-- Kill live jobs: move them to dead with a reason, so that no worker runs them until they are requeued.
--
-- A reserved job needs force. With a token, only a job with that lease is killed. The worker's later ack gets the reply
-- `stale`.
--
-- moves    scheduled ready reserved -> dead
-- forgets  dead
-- writes   jobs bodies attempts errors meta events minutes
-- KEYS     scheduled ready reserved done dead jobs bodies attempts errors meta events minutes
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          place?    str     kill only in this place; in any when empty
--          reason?   bytes   the error message
--          force?    bool    even when a worker holds it
--          each      (id bytes, token? str)
-- returns each  moved        killed
--               reserved     a worker holds it; force it, or cancel it
--               stale        another lease holds it now
--               wrong_place  (place str)  it is in another place
--               gone         no such job
-- include: keys, args
local version, dead_max, dead_ttl, watch, last_minute =
  unpack(redis.call('HMGET', meta, 'version', 'dead_max', 'dead_ttl_ms', 'events', 'minute'))
-- include: key_types(jobs bodies attempts errors events minutes), opening, place_of, failed, batch
local outcomes, deaths, lines, reasons, seen = {}, {}, {}, {}, {}
local leaves = {scheduled = {}, ready = {}, reserved = {}}
for at = 5, #ARGV, 2 do
  local id = ARGV[at]
  local from = seen[id] or place_of(id)
  local tried, token, score, began, priority, _, worker =
    string.match(redis.call('HGET', attempts, id) or '', '^(%d+) (%S+) (%S+) (%S+) (%S+) (%S) (.*)$')
  local is_held = from == 'reserved'
  if not from then
    outcomes[#outcomes + 1] = 'gone'
  elseif not leaves[from] or (place ~= '' and place ~= from) then
    outcomes[#outcomes + 1] = {'wrong_place', from}
  elseif is_held and ARGV[at + 1] ~= '' and ARGV[at + 1] ~= token then
    outcomes[#outcomes + 1] = 'stale'
  elseif is_held and not force then
    outcomes[#outcomes + 1] = 'reserved'
  else
    outcomes[#outcomes + 1], seen[id] = 'moved', 'dead'
    deaths[#deaths + 1], deaths[#deaths + 2] = now_ms, id
    if tried then lines[#lines + 1], lines[#lines + 2] = id, table.concat({tried, '-', score, now_ms, priority, '-', worker}, ' ') end
    reasons[#reasons + 1], reasons[#reasons + 2] =
      id, failed(id, is_held and tonumber(began) or now_ms, is_held and worker or '', reason == '' and 'killed' or reason)
    table.insert(leaves[from], id)
  end
end
if #deaths == 0 then return outcomes end

redis.call('ZREM', reserved, '') -- removes nothing, but lets the drain continue over maxmemory
redis.call('HSET', errors, unpack(reasons))
if #lines > 0 then redis.call('HSET', attempts, unpack(lines)) end
redis.call('ZADD', dead, unpack(deaths))
for from, ids in pairs(leaves) do
  if #ids > 0 then redis.call('ZREM', places[from], unpack(ids)) end
end
-- include: forget, minute, record_events
note('HINCRBY', meta, 'killed', #deaths / 2)
note('HINCRBY', meta, 'dead', #deaths / 2)
pcall(forget, dead, now_ms - (tonumber(dead_ttl) or 2592000000), (tonumber(dead_max) or 100000), 10 + #deaths)
record_events('kill', deaths, 2, 2)
return outcomes
