-- Enqueue tasks: at the end of the ready list, or among the delayed until they are due.
--
-- A sorted set cannot contain equal tasks. A task that is delayed already keeps its due time, and the reply is
-- `exists`. Producers of the original send ZADD, which overwrites the due time. Ready tasks may be equal.
--
-- moves    -> delayed | ready
-- KEYS     delayed ready
-- ARGV     now_ms?  int   a test's clock; the server's when empty
--          each     (body bytes, delay_ms? int, due_ms? int)
-- returns each  moved   enqueued
--               exists  it is delayed already, and keeps its due time
-- include: keys, arguments, server_time, key_types(delayed ready), batch_size
local outcomes, later, now, seen = {}, {}, {}, {}
for at = 2, #ARGV, 3 do
  local body, delay_ms, due_ms = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  for column = at + 1, at + 2 do
    if #ARGV[column] > 20 or not string.find(ARGV[column], '^%-?%d*$') then
      return redis.error_reply('ERR delay_ms and due_ms are whole numbers; nothing was changed')
    end
  end
  local due = due_ms or now_ms + (delay_ms or 0)
  if due >= 1e14 then return redis.error_reply('ERR due_ms is in milliseconds, and before the year 5138; nothing was changed') end
  if due <= now_ms then
    outcomes[#outcomes + 1], now[#now + 1] = 'moved', body
  elseif seen[body] or redis.call('ZSCORE', delayed, body) then
    outcomes[#outcomes + 1] = 'exists'
  else
    outcomes[#outcomes + 1], seen[body] = 'moved', true
    later[#later + 1], later[#later + 2] = string.format('%.3f', due / 1000), body
  end
end
if #later > 0 then redis.call('ZADD', delayed, unpack(later)) end
if #now > 0 then redis.call('RPUSH', ready, unpack(now)) end
return outcomes
