-- Requeue failed, canceled or finished jobs: they run again.
--
-- The hash of a failed job expires after a time, which RQ's own requeue does not change. This script removes the expiry. A job that was
-- canceled while it waited for others runs without them.
--
-- moves    finished failed canceled -> queued
-- writes   queues
-- derived  <prefix>:job:<id>
--          <prefix>:job:<id>:dependents
--          <prefix>:job::<id>:dependencies
-- KEYS     scheduled deferred ready_to_enqueue queued finished failed canceled queues
-- ARGV     prefix     str   prefix of all keys: rq
--          now_ms?    int   a test's clock; the server's when empty
--          at_front?  bool  at the head of the queue
--          each       (id bytes)
-- returns each  moved        requeued
--               wrong_place  (place str)  it is neither failed nor canceled nor finished
--               ghost        its hash is missing; it cannot run, but can be deleted
--               limited      it has a rate limit, whose slots only RQ can assign
--               gone         no such job
-- include: keys, args(at_front), columns, queue_keys, key_types(queued queues)
-- include: batch, clock_argv2, format_time, read_fields, refusal, find_place, leave_parents, queue_up
local leaves, replies, accepted, seen = {finished = true, failed = true, canceled = true}, {}, {}, {}
for place in pairs(leaves) do leaves[place] = registries[place] and true end
for at = 4, #ARGV do
  local id = ARGV[at]
  local values = read_fields(id, 'status', 'rate_limit_key', 'ttl')
  local place = seen[id] or find_place(id, values and values[1] or '')
  local refused = refusal(place, leaves, values) or not place and 'gone'
  if refused then
    replies[#replies + 1] = refused
  else
    replies[#replies + 1], seen[id] = 'moved', 'queued'
    accepted[#accepted + 1] = {id, values[3], at_front}
  end
end
if #accepted == 0 then return replies end

redis.pcall('ZREM', failed, '') -- frees nothing, but lets the script finish over maxmemory
-- include: queue_accepted
