-- Bump queued jobs to the head of their queue, the last job of the call first.
--
-- The script searches for an id near both ends of the queue.
--
-- moves    queued -> queued
-- derived  <prefix>:job:<id>
-- KEYS     scheduled deferred ready_to_enqueue queued finished failed canceled
-- ARGV     prefix   str  prefix of all keys: rq
--          each     (id bytes)
-- returns each  moved        bumped
--               wrong_place  (place str)  it is not in the queue
--               taken        a worker has just taken it
--               limited      it waits for a slot of its rate limit, which only RQ can assign
--               later        the queue is too long to search for so many jobs at once
--               gone         no such job
-- include: keys, columns, queue_keys, batch, read_fields, find_place, remove_at
local replies, ids, spots, seen = {}, {}, {}, {}
for at = 2, #ARGV do
  local id = ARGV[at]
  local found = find_in_list(queued, length, id, 1)
  if #found > 0 then
    replies[#replies + 1] = 'moved'
    if not seen[id] then
      seen[id], ids[#ids + 1] = true, id
      for _, spot in ipairs(found) do spots[#spots + 1] = spot end
    end
  else
    local values = read_fields(id, 'status')
    local place = find_place(id, values and values[1] or '')
    replies[#replies + 1] = place and {'wrong_place', place} or not values and 'gone' or values[1] == 'rate_limited' and 'limited'
      or length > 2 * sight and 'later' or 'taken'
  end
end
if #ids == 0 then return replies end

redis.pcall('ZREM', canceled, '') -- frees nothing, but lets the script finish over maxmemory
redis.call('LPUSH', queued, unpack(ids))
remove_at(queued, length, spots, #ids)
return replies
