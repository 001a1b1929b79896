-- Requeue failed jobs: enqueue each again under its id, with all its tries, and delete its result.
--
-- A result has the function and the arguments of the job. `member` is the result as it was read, `new` the record of the new job.
-- An abort request that is left from the earlier run is deleted, too: it would stop the new run.
--
-- moves    failed -> queued
-- writes   abort
-- derived  arq:job:<id>
--          arq:result:<id>  (complete failed)
-- KEYS     ids abort
-- ARGV     now_ms?     int  a test's clock; the server's when empty
--          expires_ms  int  how long after its due time a job may start
--          each        (id bytes, member bytes, new bytes)
-- returns each  moved    requeued
--               exists   a job of that id already waits or runs
--               changed  its result is another one by now
--               gone     its result expired or was deleted
-- include: keys, integers, key_types, batch_size, server_time, args, columns
if not expires_ms or expires_ms < 1 then return redis.error_reply('ERR expires_ms is 1 or more; nothing was changed') end
local outcomes, jobs, seen = {}, {}, {}
for at = scalars + 1, #ARGV, columns do
  local id, member, new = unpack(ARGV, at, at + 2)
  local result = redis.call('GET', 'arq:result:' .. id)
  if not result then
    outcomes[#outcomes + 1] = 'gone'
  elseif seen[id] or redis.call('EXISTS', 'arq:job:' .. id) == 1 or redis.call('ZSCORE', ids, id) then
    outcomes[#outcomes + 1] = 'exists'
  elseif result ~= member then
    outcomes[#outcomes + 1] = 'changed'
  else
    outcomes[#outcomes + 1], seen[id], jobs[#jobs + 1] = 'moved', true, {id, new}
  end
end
if #jobs == 0 then return outcomes end

for _, job in ipairs(jobs) do
  redis.call('ZREM', abort, job[1]) -- comes first: it lets the drain continue over maxmemory, also if it removes nothing
  redis.call('SET', 'arq:job:' .. job[1], job[2], 'PX', string.format('%.0f', expires_ms))
  redis.call('ZADD', ids, string.format('%.0f', now_ms), job[1])
  redis.call('DEL', 'arq:result:' .. job[1])
end
return outcomes
