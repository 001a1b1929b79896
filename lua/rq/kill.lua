-- Kill jobs that have not started: they are canceled, as by RQ's own cancel, and can be requeued.
--
-- Jobs that depend on one of them stay deferred. The script searches for an id near both ends of the queue.
--
-- moves    scheduled deferred ready_to_enqueue queued -> canceled
-- derived  <prefix>:job:<id>
-- KEYS     scheduled deferred ready_to_enqueue queued finished failed canceled
-- ARGV     prefix   str  prefix of all keys: rq
--          now_ms?  int  a test's clock; the server's when empty
--          each     (id bytes)
-- returns each  moved        killed
--               wrong_place  (place str)  it has started or ended; cancel a started job
--               taken        a worker has just taken it
--               later        the queue is too long to search for so many jobs at once
--               ghost        its hash is missing; it cannot run, but can be deleted
--               limited      it has a rate limit, whose slots only RQ can assign
--               gone         no such job
-- include: keys, columns, queue_keys, key_types(canceled), batch, clock_argv2, read_fields, refusal, find_place, remove_at
local leaves = {scheduled = true, deferred = true, ready_to_enqueue = true, queued = true}
local replies, ids, spots, seen = {}, {}, {}, {}
for at = 3, #ARGV do
  local id = ARGV[at]
  local values = read_fields(id, 'status', 'rate_limit_key')
  local place = seen[id] or find_place(id, values and values[1] or '')
  local refused = refusal(place, leaves, values) or not place and (not values and 'gone' or length > 2 * sight and 'later' or 'taken')
  if refused then
    replies[#replies + 1] = refused
  else
    replies[#replies + 1], seen[id], ids[#ids + 1] = 'moved', 'canceled', id
    for _, spot in ipairs(find_in_list(queued, length, id, 1)) do spots[#spots + 1] = spot end
  end
end
if #ids == 0 then return replies end

redis.call('ZREM', canceled, '') -- frees nothing, but lets the script finish over maxmemory
for _, id in ipairs(ids) do
  redis.call('HSET', prefix .. ':job:' .. id, 'status', 'canceled')
  redis.call('ZADD', canceled, string.format('%.0f', math.floor(now_ms / 1000)), id)
end
for _, id in ipairs(ids) do
  for place in pairs(leaves) do
    if registries[place] then redis.call('ZREM', registries[place], id) end
  end
end
remove_at(queued, length, spots, 0) -- otherwise a worker would run the id in the list, whatever its status is
return replies
