-- Reschedule waiting jobs to another due time; a time in the past makes them due.
--
-- moves    deferred queued -> deferred | queued
-- derived  arq:job:<id>
--          arq:in-progress:<id>
-- KEYS     ids
-- ARGV     now_ms?     int  a test's clock; the server's when empty
--          due_ms?     int  the new due time
--          delay_ms?   int  or the delay from now
--          expires_ms  int  how long after its due time a job may start
--          each        (id bytes)
-- returns each  moved        rescheduled
--               wrong_place  a worker runs it
--               gone         it is not in the queue
-- include: keys, integers, key_types, batch_size, server_time, args, columns
local due = delay_ms and now_ms + delay_ms or due_ms
if not due or due < 1 or due >= 1e14 or not expires_ms or expires_ms < 1 then
  return redis.error_reply('ERR give due_ms or delay_ms in milliseconds, before the year 5138, and expires_ms of 1 or more; nothing was changed')
end
local outcomes, dues, seen = {}, {}, {}
for at = scalars + 1, #ARGV, columns do
  local id = ARGV[at]
  if seen[id] or not redis.call('ZSCORE', ids, id) then
    outcomes[#outcomes + 1] = 'gone'
  elseif redis.call('EXISTS', 'arq:in-progress:' .. id) == 1 then
    outcomes[#outcomes + 1] = 'wrong_place'
  else
    outcomes[#outcomes + 1], seen[id], dues[#dues + 1] = 'moved', true, {id, due}
  end
end
-- include: move_due
