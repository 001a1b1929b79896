-- Requeue dead jobs: they run again, as Sidekiq's own "retry now" has it.
--
-- The client wrote the new bytes: one retry less is counted, and the job is enqueued now. They enter the queue only while the old
-- ones stand, which no score can tell: Sidekiq's own takes all jobs of one score and puts the others back.
--
-- moves    dead -> queue
-- writes   queues
-- KEYS     dead    zset  jobs by when they died (s)
--          queue   list  jobs, the next one last
--          queues  set   names of all queues
-- ARGV     queue   str   its name
--          each    (member bytes, new? bytes)
-- returns each  moved  requeued
--               raw    it is no job that a worker can run
--               gone   it is not dead any more
local dead, queue, queues = KEYS[1], KEYS[2], KEYS[3]
local scalars, columns = 1, 2
redis.call('LLEN', queue)
redis.call('SCARD', queues)
redis.call('ZCARD', dead)
-- block: sidekiq_batch
local rows = (#ARGV - scalars) / columns
if rows < 1 or rows > 1000 or rows ~= math.floor(rows) then
  return redis.error_reply('ERR it takes 1 to 1000 rows, each with all of its columns; nothing was changed')
end
if ARGV[1] == '' or string.sub(queue, -#ARGV[1] - 6) ~= 'queue:' .. ARGV[1] then
  return redis.error_reply('ERR the list of a queue is queue:NAME, and the first argument is the name; nothing was changed')
end
-- end
local words, seen, jobs = {}, {}, {}
for at = 2, #ARGV, columns do
  local member, new = ARGV[at], ARGV[at + 1]
  local stands = not seen[member] and redis.call('ZSCORE', dead, member)
  words[#words + 1], seen[member] = not stands and 'gone' or new == '' and 'raw' or 'moved', true
  if words[#words] == 'moved' then jobs[#jobs + 1] = {member, new} end
end
if #jobs == 0 then return words end

redis.call('ZREMRANGEBYRANK', dead, 1, 0) -- frees nothing: a drain may go on over maxmemory
redis.call('SADD', queues, ARGV[1])
for _, job in ipairs(jobs) do
  redis.call('LPUSH', queue, job[2])
  redis.call('ZREM', dead, job[1])
end
return words
