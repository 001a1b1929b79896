-- Ack leased jobs: delete them with their bodies, as the servers of this system do.
--
-- A job that was enqueued again with the same id keeps its body and stays queued.
--
-- moves    reserved expired ->
-- writes   jobs expiries
-- KEYS     jobs queued reserved expiries
-- ARGV     each     (id bytes, token str)
-- returns each  moved  acked
--               stale  this lease is over: the job is queued again, or has another lease
--               gone   no such job
-- include: keys, key_types, batch_size
local outcomes, ids, free, seen = {}, {}, {}, {}
for at = 1, #ARGV, 2 do
  local id, token = ARGV[at], tonumber(ARGV[at + 1])
  local deadline = not seen[id] and redis.call('ZSCORE', reserved, id)
  local again = redis.call('ZSCORE', queued, id)
  if deadline and tonumber(deadline) == token then
    outcomes[#outcomes + 1], seen[id], ids[#ids + 1] = 'moved', true, id
    if not again then free[#free + 1] = id end
  else
    outcomes[#outcomes + 1] = (deadline or again) and 'stale' or 'gone'
  end
end
if #ids == 0 then return outcomes end

redis.call('ZREM', reserved, unpack(ids))
if #free > 0 then redis.call('HDEL', jobs, unpack(free)) end
redis.pcall('ZREM', expiries, unpack(ids))
return outcomes
