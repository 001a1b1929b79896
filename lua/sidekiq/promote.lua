-- Promote scheduled jobs and retries: they are enqueued now, as Sidekiq's poller would at their time.
--
-- The client wrote the new bytes: of a retry one retry less is counted, and the job is enqueued now. They enter the queue only while
-- the old ones stand.
--
-- moves    schedule retry -> queue
-- writes   queues
-- KEYS     schedule  zset  jobs by due (s)
--          retry     zset  jobs by due (s)
--          queue     list  jobs, the next one last
--          queues    set   names of all queues
-- ARGV     queue     str   its name
--          place?    str   only there; in either when empty
--          each      (member bytes, new? bytes)
-- returns each  moved        promoted
--               raw          it is no job that a worker can run: kill or delete it, or Sidekiq loses it when it is due
--               wrong_place  (place str)  it does not wait for its time
--               gone         it waits there no more
local schedule, retry, queue, queues, place = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[2]
local scalars, columns = 2, 2
redis.call('LLEN', queue)
redis.call('SCARD', queues)
redis.call('ZCARD', schedule)
redis.call('ZCARD', retry)
-- block: sidekiq_place, sidekiq_batch
if not ({[''] = 1, schedule = 1, retry = 1, queue = 1, work = 1, lost = 1, dead = 1})[place] then
  return redis.error_reply('ERR there is no place of that name; nothing was changed')
end
local rows = (#ARGV - scalars) / columns
if rows < 1 or rows > 1000 or rows ~= math.floor(rows) then
  return redis.error_reply('ERR it takes 1 to 1000 rows, each with all of its columns; nothing was changed')
end
if ARGV[1] == '' or string.sub(queue, -#ARGV[1] - 6) ~= 'queue:' .. ARGV[1] then
  return redis.error_reply('ERR the list of a queue is queue:NAME, and the first argument is the name; nothing was changed')
end
-- end
local keys = {schedule = {schedule}, retry = {retry}, [''] = {schedule, retry}}
local words, seen, jobs = {}, {}, {}
for at = 3, #ARGV, columns do
  local member, new, stands = ARGV[at], ARGV[at + 1], nil
  for _, key in ipairs(keys[place] or {}) do
    if not seen[member] and not stands and redis.call('ZSCORE', key, member) then stands = key end
  end
  words[#words + 1] = not keys[place] and {'wrong_place', place} or not stands and 'gone' or new == '' and 'raw' or 'moved'
  seen[member] = true
  if words[#words] == 'moved' then jobs[#jobs + 1] = {stands, member, new} end
end
if #jobs == 0 then return words end

redis.call('ZREMRANGEBYRANK', schedule, 1, 0) -- frees nothing: a drain may go on over maxmemory
redis.call('SADD', queues, ARGV[1])
for _, job in ipairs(jobs) do
  redis.call('LPUSH', queue, job[3])
  redis.call('ZREM', job[1], job[2])
end
return words
