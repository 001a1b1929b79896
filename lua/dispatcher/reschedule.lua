-- Reschedule delayed tasks: give them another due time; a time in the past makes them ready.
--
-- moves    delayed -> delayed | ready
-- KEYS     delayed ready
-- ARGV     now_ms?    int   a test's clock; the server's when empty
--          due_ms?    int   the new due time
--          delay_ms?  int   or the delay from now
--          each       (member bytes)
-- returns each  moved  (place str)  rescheduled
--               gone   it is not delayed
-- include: keys
for _, at in ipairs({1, 2, 3}) do
  if #ARGV < 3 or #ARGV[at] > 16 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 3 arguments and rows, whole numbers where the header says int; nothing was changed')
  end
end
-- include: server_time, args, key_types(ready), batch_size(tasks)
local due = delay_ms and now_ms + delay_ms or due_ms
if not due or due >= 1e14 then
  return redis.error_reply('ERR give due_ms or delay_ms, in milliseconds, before the year 5138; nothing was changed')
end
local place = due > now_ms and 'delayed' or 'ready'
local outcomes, tasks, entries, seen = {}, {}, {}, {}
local score = string.format('%.3f', due / 1000)
for at = 4, #ARGV do
  local member = ARGV[at]
  local is_delayed = redis.call('ZSCORE', delayed, member) and not seen[member]
  outcomes[#outcomes + 1], seen[member] = is_delayed and {'moved', place} or 'gone', true
  if is_delayed then tasks[#tasks + 1], entries[#entries + 1], entries[#entries + 2] = member, score, member end
end
if #tasks == 0 then return outcomes end

redis.call('ZREMRANGEBYRANK', delayed, 1, 0) -- removes nothing, but lets the drain continue over maxmemory
if place == 'delayed' then
  redis.call('ZADD', delayed, unpack(entries))
else
  redis.call('RPUSH', ready, unpack(tasks))
  redis.call('ZREM', delayed, unpack(tasks))
end
return outcomes
