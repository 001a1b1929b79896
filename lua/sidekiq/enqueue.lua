-- Enqueue new jobs, now or later.
--
-- The bytes are pushed unchanged: they contain the jid and the queue, and the time of enqueueing if the job is due now.
-- A later job goes to `schedule`, from which the poller of a Sidekiq process moves it.
--
-- moves    -> queue | schedule
-- writes   queues
-- KEYS     queue schedule queues
-- ARGV     queue     str   its name
--          now_ms?   int   a test's clock; the server's when empty
--          each      (id? bytes, body bytes, delay_ms? int, due_ms? int)
-- returns each  moved  enqueued
-- include: keys, columns, key_types(queue schedule queues), batch, clock_argv2
local jobs = {}
for at = 3, #ARGV, columns do
  local id, body, of = ARGV[at], ARGV[at + 1], 'ERR job ' .. (at + 1) / columns .. ' of the batch: '
  if body == '' or not string.find(body, id, 1, true) then
    return redis.error_reply(of .. 'its body does not hold its id, the jid; nothing was changed')
  end
  for column = at + 2, at + 3 do
    if #ARGV[column] > 13 or string.find(ARGV[column], '%D') then
      return redis.error_reply(of .. 'delay_ms and due_ms are whole numbers from 0 on; nothing was changed')
    end
  end
  local delay_ms = tonumber(ARGV[at + 2])
  jobs[#jobs + 1] = {body, delay_ms and now_ms + delay_ms or tonumber(ARGV[at + 3]) or now_ms}
end

local outcomes = {}
redis.call('SADD', queues, ARGV[1])
for i, job in ipairs(jobs) do
  outcomes[i] = 'moved'
  if job[2] > now_ms then
    redis.call('ZADD', schedule, string.format('%.3f', job[2] / 1000), job[1])
  else
    redis.call('LPUSH', queue, job[1])
  end
end
return outcomes
