-- Promote deferred jobs: make them due now.
--
-- moves    deferred -> queued
-- derived  arq:job:<id>
--          arq:in-progress:<id>
-- KEYS     ids
-- ARGV     now_ms?     int  a test's clock; the server's when empty
--          expires_ms  int  how long after its due time a job may start
--          each        (id bytes)
-- returns each  moved        promoted
--               wrong_place  it is due already, or a worker runs it
--               gone         it is not in the queue
-- include: keys, integers, key_types, batch_size, server_time, args, columns
if not expires_ms or expires_ms < 1 then return redis.error_reply('ERR expires_ms is 1 or more; nothing was changed') end
local outcomes, dues, seen = {}, {}, {}
for at = scalars + 1, #ARGV, columns do
  local id = ARGV[at]
  local score = redis.call('ZSCORE', ids, id)
  if not score then
    outcomes[#outcomes + 1] = 'gone'
  elseif seen[id] or tonumber(score) <= now_ms or redis.call('EXISTS', 'arq:in-progress:' .. id) == 1 then
    outcomes[#outcomes + 1] = 'wrong_place'
  else
    outcomes[#outcomes + 1], seen[id], dues[#dues + 1] = 'moved', true, {id, now_ms}
  end
end
-- include: move_due
