-- Reschedule delayed jobs: they are due at another time.
--
-- moves    delayed -> delayed
-- KEYS     delayed waiting running failed
-- ARGV     now_ms?    int  a test's clock; the server's when empty
--          delay_ms?  int  the delay from now
--          due_ms?    int  or the due time
--          each       (id bytes)
-- returns each  moved        rescheduled
--               wrong_place  (place str)  it is in another place
--               gone         no such job
-- include: keys, key_types, clock, args, columns, batch_size(jobs), integers, find_place
local due = delay_ms and now_ms + delay_ms or due_ms
if not due or due < 0 then return redis.error_reply('ERR give delay_ms or due_ms; nothing was changed') end
local outcomes, scores = {}, {}
for at = scalars + 1, #ARGV do
  local place = find_place(ARGV[at])
  if place ~= 'delayed' then
    outcomes[#outcomes + 1] = place and {'wrong_place', place} or 'gone'
  else
    outcomes[#outcomes + 1] = 'moved'
    scores[#scores + 1], scores[#scores + 2] = string.format('%.3f', due / 1000), ARGV[at]
  end
end
if #scores == 0 then return outcomes end

redis.call('ZREM', delayed, '') -- removes nothing, but lets the script finish over maxmemory
redis.call('ZADD', delayed, unpack(scores))
return outcomes
