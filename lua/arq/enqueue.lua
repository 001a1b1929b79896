-- Enqueue new jobs, due now or later.
--
-- The record of a job expires one day after its due time, or `expires_ms` after it, and the job then fails without a run, as in arq.
--
-- moves    -> deferred | queued
-- derived  arq:job:<id>
--          arq:result:<id>  (complete failed)
-- KEYS     ids
-- ARGV     now_ms?     int  a test's clock; the server's when empty
--          expires_ms  int  how long after its due time a job may start
--          each        (id bytes, body bytes, delay_ms? int, due_ms? int)
-- returns each  moved   enqueued
--               exists  a job of that id waits or runs, or its result is stored; nothing was changed
-- include: keys, integers, key_types, batch_size, server_time, args, columns
if not expires_ms or expires_ms < 1 then return redis.error_reply('ERR expires_ms is 1 or more; nothing was changed') end
local outcomes, jobs, seen = {}, {}, {}
for at = scalars + 1, #ARGV, columns do
  local id, delay_ms, due_ms = ARGV[at], tonumber(ARGV[at + 2]) or 0, tonumber(ARGV[at + 3])
  for column = at + 2, at + 3 do
    if #ARGV[column] > 15 or not string.find(ARGV[column], '^%-?%d*$') then
      return redis.error_reply('ERR delay_ms and due_ms are whole numbers; nothing was changed')
    end
  end
  if seen[id] or redis.call('EXISTS', 'arq:job:' .. id, 'arq:result:' .. id) > 0 or redis.call('ZSCORE', ids, id) then
    outcomes[#outcomes + 1] = 'exists'
  else
    local due = math.max(1, due_ms or now_ms + delay_ms) -- a worker never starts a job whose score is 0
    outcomes[#outcomes + 1], seen[id], jobs[#jobs + 1] = 'moved', true, {id, ARGV[at + 1], due}
  end
end
for _, job in ipairs(jobs) do
  local left_ms = math.max(0, job[3] - now_ms) + expires_ms
  redis.call('SET', 'arq:job:' .. job[1], job[2], 'PX', string.format('%.0f', left_ms))
  redis.call('ZADD', ids, string.format('%.0f', job[3]), job[1])
end
return outcomes
