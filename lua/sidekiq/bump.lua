-- Bump jobs of the queue: they are the next ones.
--
-- An entry is searched for near both ends of the queue.
--
-- moves    queue -> queue
-- KEYS     queue
-- ARGV     queue  str   its name
--          each   (member bytes)
-- returns each  moved  bumped
--               later  the queue is too long to search for so many at once
--               gone   it is not in the queue any more
-- include: keys, columns, batch, listed
local outcomes, members, spots = {}, {}, {}
for at = 2, #ARGV do
  local spot, is_unsure = next_spot(ARGV[at])
  outcomes[#outcomes + 1] = spot and 'moved' or is_unsure and 'later' or 'gone'
  if spot then members[#members + 1], spots[#spots + 1] = ARGV[at], spot end
end
if #spots == 0 then return outcomes end

redis.call('LTRIM', queue, 0, -1) -- removes nothing, but lets the drain continue over maxmemory
-- The last row is pushed first, so that the first row is the next job.
for i = #members, 1, -1 do redis.call('RPUSH', queue, members[i]) end
-- The pushed entries are equal, so the old ones are removed by index.
for _, at in ipairs(spots) do redis.call('LSET', queue, near_index(at, length + #spots), '') end
for _, at in ipairs(spots) do redis.call('LREM', queue, at * 2 < length and 1 or -1, '') end
return outcomes
