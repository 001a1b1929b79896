-- Enqueue new jobs, due now or later.
--
-- moves    -> waiting | delayed
-- derived  jobbox:job:<id>
-- KEYS     delayed waiting
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          each     (id bytes, body bytes, name? bytes, delay_ms? int, due_ms? int)
-- returns each  moved   enqueued
--               exists  a job of this id exists; nothing was changed
-- include: keys, key_types, clock, columns, batch_size(jobs), integers
local outcomes, jobs, seen = {}, {}, {}
for at = scalars + 1, #ARGV, columns do
  local id, delay_ms, due_ms = ARGV[at], tonumber(ARGV[at + 3]) or 0, tonumber(ARGV[at + 4])
  if seen[id] or redis.call('EXISTS', 'jobbox:job:' .. id) == 1 then
    outcomes[#outcomes + 1] = 'exists'
  else
    outcomes[#outcomes + 1], seen[id], jobs[#jobs + 1] = 'moved', true, {id, ARGV[at + 1], ARGV[at + 2], due_ms or now_ms + delay_ms}
  end
end

for _, job in ipairs(jobs) do
  local id, due_ms = job[1], job[4]
  redis.call('HSET', 'jobbox:job:' .. id, 'body', job[2], 'name', job[3], 'created', string.format('%.3f', now_ms / 1000),
    'attempts', 0)
  if due_ms > now_ms then
    redis.call('ZADD', delayed, string.format('%.3f', due_ms / 1000), id)
  else
    redis.call('RPUSH', waiting, id)
  end
end
return outcomes
