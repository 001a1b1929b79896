-- Reschedule scheduled jobs and retries: when they are due.
--
-- By their bytes: Sidekiq's own encodes the job anew, and makes a second one where that reads otherwise.
--
-- moves    schedule -> schedule
--          retry -> retry
-- KEYS     schedule   zset  jobs by due (s)
--          retry      zset  jobs by due (s)
--          queue      list  jobs, the next one last
-- ARGV     queue      str   its name
--          now_ms?    int   a test's clock; the server's when empty
--          place?     str   only there; in either when empty
--          delay_ms?  int   due so long from now
--          due_ms?    int   due then; now when both are empty
--          each       (member bytes)
-- returns each  moved        rescheduled
--               wrong_place  (place str)  it does not wait for its time
--               gone         it waits there no more
local schedule, retry, queue, place = KEYS[1], KEYS[2], KEYS[3], ARGV[3]
local scalars, columns = 5, 1
redis.call('ZCARD', schedule)
redis.call('ZCARD', retry)
redis.call('LLEN', queue)
-- block: sidekiq_place, sidekiq_batch, sidekiq_now
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
if #ARGV[2] > 13 or string.find(ARGV[2], '%D') then
  return redis.error_reply('ERR now_ms is a whole number; nothing was changed')
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[2]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
-- end
local keys = {schedule = {schedule}, retry = {retry}, [''] = {schedule, retry}}
for at = 4, 5 do
  if #ARGV[at] > 13 or string.find(ARGV[at], '%D') then
    return redis.error_reply('ERR delay_ms and due_ms are whole numbers from 0 on; nothing was changed')
  end
end
local delay_ms = tonumber(ARGV[4])
local due_ms = delay_ms and now_ms + delay_ms or tonumber(ARGV[5]) or now_ms
local words, jobs = {}, {}
for at = 6, #ARGV do
  local stands
  for _, key in ipairs(keys[place] or {}) do
    if not stands and redis.call('ZSCORE', key, ARGV[at]) then stands = key end
  end
  words[#words + 1] = stands and 'moved' or keys[place] and 'gone' or {'wrong_place', place}
  if stands then jobs[#jobs + 1] = {stands, ARGV[at]} end
end
if #jobs == 0 then return words end

redis.call('ZREMRANGEBYRANK', schedule, 1, 0) -- frees nothing: a drain may go on over maxmemory
for _, job in ipairs(jobs) do redis.call('ZADD', job[1], 'XX', string.format('%.3f', due_ms / 1000), job[2]) end
return words
