-- Delete jobs that wait, with their records, and results of jobs that ended.
--
-- A job that a worker runs is not deleted: its worker would write its result nevertheless.
--
-- moves    deferred queued complete failed ->
-- writes   abort
-- derived  arq:job:<id>
--          arq:in-progress:<id>
--          arq:retry:<id>
--          arq:result:<id>  (complete failed)
-- KEYS     ids abort
-- ARGV     each  (id bytes)
-- returns each  moved     deleted
--               reserved  a worker runs it: cancel it, or release it if its worker died
--               gone      no such job
-- include: keys, key_types, batch_size, columns
local outcomes, jobs, seen = {}, {}, {}
for at = scalars + 1, #ARGV, columns do
  local id = ARGV[at]
  local is_in_queue = redis.call('ZSCORE', ids, id)
  if is_in_queue and redis.call('EXISTS', 'arq:in-progress:' .. id) == 1 then
    outcomes[#outcomes + 1] = 'reserved'
  elseif seen[id] or not is_in_queue and redis.call('EXISTS', 'arq:result:' .. id) == 0 then
    outcomes[#outcomes + 1] = 'gone'
  else
    outcomes[#outcomes + 1], seen[id], jobs[#jobs + 1] = 'moved', true, {id, is_in_queue}
  end
end
for _, job in ipairs(jobs) do
  local id, is_in_queue = unpack(job)
  redis.call('ZREM', abort, id)
  if is_in_queue then
    redis.call('ZREM', ids, id)
    redis.call('DEL', 'arq:job:' .. id, 'arq:retry:' .. id)
  else
    redis.call('DEL', 'arq:result:' .. id)
  end
end
return outcomes
