-- Repair jobs that are in no place or in two places.
--
-- A body without a place becomes due now. A job that is both queued and reserved loses its lease, and runs again.
--
-- moves    queued due reserved expired -> queued | due
-- KEYS     jobs queued reserved
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          unit     str  ms, s or auto
--          each     (id bytes)
-- returns each  moved  repaired
--               fine   there was nothing to repair
--               ghost  it has no body: delete it, or enqueue it again
--               gone   no such job
-- include: keys, key_types, server_time
local unit, S, MS = ARGV[2], '100000000', '100000000000'
if #ARGV < 3 or #ARGV > 1002 or #ARGV[1] > 13 or string.find(ARGV[1], '%D') or not ({ms = 1, s = 1, auto = 1})[unit] then
  return redis.error_reply('ERR a batch has 1 to 1000 ids, now_ms is a whole number, the unit ms, s or auto; nothing was changed')
end
local outcomes, lost, twice = {}, {}, {}
for at = 3, #ARGV do
  local id = ARGV[at]
  local due, deadline = redis.call('ZSCORE', queued, id), redis.call('ZSCORE', reserved, id)
  local has_body = redis.call('HEXISTS', jobs, id) == 1
  outcomes[#outcomes + 1] = not has_body and ((due or deadline) and 'ghost' or 'gone') or 'fine'
  if has_body and due and deadline then
    outcomes[#outcomes], twice[#twice + 1] = 'moved', id
  elseif has_body and not due and not deadline then
    outcomes[#outcomes], lost[#lost + 1] = 'moved', id
  end
end
if #lost == 0 and #twice == 0 then return outcomes end
if #lost == 0 then unit = 'ms' end -- no score is written
-- include: topic_unit
redis.call('ZREMRANGEBYRANK', reserved, 1, 0) -- frees nothing: a drain may go on over maxmemory
local now = string.format('%.0f', unit == 'ms' and now_ms or math.floor(now_ms / 1000))
for _, id in ipairs(lost) do redis.call('ZADD', queued, now, id) end
if #twice > 0 then redis.call('ZREM', reserved, unpack(twice)) end
return outcomes
