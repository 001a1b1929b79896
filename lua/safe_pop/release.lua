-- Release leased jobs unharmed: to the end of the list where they are popped next, because they have waited before.
--
-- The token is the entry. The entry of a single job is searched for among 100 000 at each end, those of many jobs among
-- at least 2500.
--
-- moves    in_progress expired -> ready
-- KEYS     entries
-- ARGV     each (id bytes, token bytes)
-- returns each  moved  released
--               stale  this lease is over; the job waits again, or another worker holds it
--               gone   no such job
-- include: keys
local length = redis.call('LLEN', entries)
-- include: batch_size, find_lease
local outcomes, removals, back, seen = {}, {}, {}, {}
for at = 1, #ARGV, 2 do
  local token = ARGV[at + 1]
  local id, _, index = find_lease(ARGV[at], token, seen[token])
  if index then
    outcomes[#outcomes + 1], seen[token], removals[#removals + 1] = 'moved', true, {token, index * 2 < length and 1 or -1}
    table.insert(back, 1, id)
  else
    outcomes[#outcomes + 1] = (seen[token] or entries_of(id) > 0) and 'stale' or 'gone'
  end
end
if #removals == 0 then return outcomes end

redis.call('LTRIM', entries, 0, -1) -- removes nothing, but lets the drain continue over maxmemory
redis.call('RPUSH', entries, unpack(back))
for _, job in ipairs(removals) do redis.call('LREM', entries, job[2], job[1]) end
return outcomes
