-- Reschedule scheduled jobs and retries: give them another due time.
--
-- The bytes of a job do not change. Sidekiq's own method encodes the job again, and adds a second job if the bytes
-- differ.
--
-- moves    schedule -> schedule
--          retry -> retry
-- KEYS     schedule retry queue
-- ARGV     queue      str   its name
--          now_ms?    int   a test's clock; the server's when empty
--          place?     str   only in this place; in either when empty
--          delay_ms?  int   the delay from now
--          due_ms?    int   the due time; now when both are empty
--          each       (member bytes)
-- returns each  moved        rescheduled
--               wrong_place  (place str)  it is neither scheduled nor a retry
--               gone         it is not there any more
-- include: keys, args(place), columns, key_types(schedule retry queue), known_place, batch, clock_argv2
local keys = {schedule = {schedule}, retry = {retry}, [''] = {schedule, retry}}
for at = 4, 5 do
  if #ARGV[at] > 13 or string.find(ARGV[at], '%D') then
    return redis.error_reply('ERR delay_ms and due_ms are whole numbers from 0 on; nothing was changed')
  end
end
-- include: args(delay_ms)
local due_ms = delay_ms and now_ms + delay_ms or tonumber(ARGV[5]) or now_ms
local outcomes, jobs = {}, {}
for at = 6, #ARGV do
  local source
  for _, key in ipairs(keys[place] or {}) do
    if not source and redis.call('ZSCORE', key, ARGV[at]) then source = key end
  end
  outcomes[#outcomes + 1] = source and 'moved' or keys[place] and 'gone' or {'wrong_place', place}
  if source then jobs[#jobs + 1] = {source, ARGV[at]} end
end
if #jobs == 0 then return outcomes end

redis.call('ZREMRANGEBYRANK', schedule, 1, 0) -- removes nothing, but lets the drain continue over maxmemory
for _, job in ipairs(jobs) do redis.call('ZADD', job[1], 'XX', string.format('%.3f', due_ms / 1000), job[2]) end
return outcomes
