-- Promote jobs that wait for a time or for other jobs: they are queued now.
--
-- While a scheduler holds the lock, a due job is promoted only with `force`. The scheduler may already have read the job, which would then
-- run twice.
--
-- moves    scheduled deferred ready_to_enqueue -> queued
-- writes   queues
-- derived  <prefix>:job:<id>
--          <prefix>:job:<id>:dependents
--          <prefix>:job::<id>:dependencies
-- KEYS     scheduled deferred ready_to_enqueue queued finished failed canceled queues lock
-- ARGV     prefix     str   prefix of all keys: rq
--          now_ms?    int   a test's clock; the server's when empty
--          force?     bool  even if a scheduler is about to move it
--          each       (id bytes)
-- returns each  moved        promoted
--               due          it is due, and a scheduler moves it within a second; use force if the scheduler hangs
--               wrong_place  (place str)  it waits for neither a time nor a job
--               ghost        its hash is missing; it cannot run, but can be deleted
--               limited      it has a rate limit, whose slots only RQ can assign
--               gone         no such job
-- include: keys, args(force), columns, queue_keys, key_types(queued queues)
-- include: batch, clock_argv2, format_time, read_fields, refusal, find_place, leave_parents, queue_up
local is_locked = redis.call('GET', lock)
local leaves, replies, accepted, seen = {scheduled = true, deferred = true, ready_to_enqueue = true}, {}, {}, {}
for place in pairs(leaves) do leaves[place] = registries[place] and true end
for at = 4, #ARGV do
  local id = ARGV[at]
  local values = read_fields(id, 'status', 'rate_limit_key', 'ttl', 'enqueue_at_front', 'enqueue_at_front_on_retry', 'ended_at')
  local place = seen[id] or find_place(id, values and values[1] or '')
  local refused = refusal(place, leaves, values) or not place and 'gone'
  if refused then
    replies[#replies + 1] = refused
  elseif is_locked and not force and place == 'scheduled' and tonumber(redis.call('ZSCORE', scheduled, id)) * 1000 <= now_ms then
    replies[#replies + 1] = 'due'
  else
    replies[#replies + 1], seen[id] = 'moved', 'queued'
    accepted[#accepted + 1] = {id, values[3], values[4] == '1' or (values[5] == '1' and (values[6] or '') ~= '')}
  end
end
if #accepted == 0 then return replies end

redis.pcall('ZREM', scheduled, '') -- frees nothing, but lets the script finish over maxmemory
-- include: queue_accepted
