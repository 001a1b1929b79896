-- Reschedule delayed jobs: set another due time. With a time in the past they are due at once.
--
-- The next job of a scheduler may be moved: it runs at the new time, and the job after it at its own time.
--
-- moves    delayed -> delayed
-- writes   marker events
-- derived  <prefix>:<queue>:<id>
-- KEYS     delayed waiting_children prioritized wait paused active completed failed meta pc marker events
-- ARGV     p          str    prefix of all keys of the queue: bull:mail:
--          now_ms?    int    a test's clock; the server's when empty
--          delay_ms?  int    time until it is due
--          due_ms?    int    due time; give one of both
--          each       (id bytes)
-- returns each  moved        rescheduled
--               wrong_place  (place str)  it is not delayed
--               ghost        its hash is missing; it can only be deleted
--               later        the queue is too long to search for so many jobs at once
--               gone         no such job
-- include: keys, columns, queue_keys, batch, clock_argv2
if #ARGV[3] > 12 or #ARGV[4] > 13 or string.find(ARGV[3] .. ARGV[4], '%D') or (ARGV[3] == '') == (ARGV[4] == '') then
  return redis.error_reply('ERR either delay_ms or due_ms is given, a whole number; nothing was changed')
end
local due_ms = math.max(now_ms, tonumber(ARGV[4]) or now_ms + tonumber(ARGV[3]))
-- include: read_fields, refusal, add_event, add_delayed, this_queue, wake_when_due
local sources = {delayed = true}
local replies, accepted = {}, {}
for at = 5, #ARGV do
  local id = ARGV[at]
  local place = find_place(id)
  local refused = refusal(place, sources, place == 'delayed' and read_fields(id, 'delay'))
  if refused then
    replies[#replies + 1] = refused
  else
    replies[#replies + 1], accepted[#accepted + 1] = 'moved', id
  end
end
if #accepted == 0 then return replies end

redis.call('ZREM', delayed, '') -- frees nothing, but lets the script finish over maxmemory
for _, id in ipairs(accepted) do
  redis.call('HSET', p .. id, 'delay', string.format('%.0f', due_ms - now_ms))
  add_delayed(id, due_ms)
  add_event(queue, 'delayed', 'jobId', id, 'delay', string.format('%.0f', due_ms))
end
wake_when_due()
return replies
