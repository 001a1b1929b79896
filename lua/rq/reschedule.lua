-- Reschedule scheduled jobs: set another due time, in whole seconds.
--
-- While a scheduler holds the lock, a due job is left to it, because the scheduler may already have read the job.
--
-- moves    scheduled -> scheduled
-- derived  <prefix>:job:<id>
-- KEYS     scheduled deferred ready_to_enqueue queued finished failed canceled lock
-- ARGV     prefix     str   prefix of all keys: rq
--          now_ms?    int   a test's clock; the server's when empty
--          delay_ms?  int   time until it is due
--          due_ms?    int   due time; now if both are empty
--          each       (id bytes)
-- returns each  moved        rescheduled
--               due          it is due, and a scheduler moves it within a second
--               wrong_place  (place str)  it is not scheduled
--               limited      it waits for a slot of its rate limit, which only RQ can assign
--               gone         no such job
-- include: keys, args(delay_ms due_ms), columns, queue_keys, key_types(scheduled), batch, clock_argv2, read_fields, find_place
local is_locked = redis.call('GET', lock)
for at = 3, 4 do
  if #ARGV[at] > 13 or string.find(ARGV[at], '%D') then
    return redis.error_reply('ERR delay_ms and due_ms are whole numbers; nothing was changed')
  end
end
local due = string.format('%.0f', math.ceil((delay_ms and now_ms + delay_ms or due_ms or now_ms) / 1000))
local replies, dues = {}, {}
for at = 5, #ARGV do
  local id = ARGV[at]
  local score = tonumber(redis.call('ZSCORE', scheduled, id) or nil)
  if score and is_locked and score * 1000 <= now_ms then
    replies[#replies + 1] = 'due'
  elseif score then
    replies[#replies + 1] = 'moved'
    dues[#dues + 1], dues[#dues + 2] = due, id
  else
    local values = read_fields(id, 'status')
    local place = find_place(id, values and values[1] or '')
    replies[#replies + 1] = place and {'wrong_place', place} or values and values[1] == 'rate_limited' and 'limited' or 'gone'
  end
end
if #dues == 0 then return replies end

redis.call('ZREM', scheduled, '') -- frees nothing, but lets the script finish over maxmemory
redis.call('ZADD', scheduled, unpack(dues))
return replies
