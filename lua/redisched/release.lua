-- Release leased jobs back to the queue, due now or later.
--
-- The README of this system describes `release` as the end of a job. Its code does what this script does.
--
-- moves    reserved expired -> queued | due
-- KEYS     queued reserved
-- ARGV     now_ms?    int  a test's clock; the server's when empty
--          delay_ms?  int  time until they are due
--          unit       str  ms, s or auto
--          each       (id bytes, token str)
-- returns each  moved  released
--               stale  this lease is over: the job is queued again, or has another lease
--               gone   no such job
-- include: keys, integers, key_types, server_time
local delay_ms, unit, MS = tonumber(ARGV[2]) or 0, ARGV[3], '100000000000'
if #ARGV < 5 or #ARGV > 2003 or #ARGV % 2 == 0 or #ARGV[1] > 13 or string.find(ARGV[1], '%D') or delay_ms < 0
  or not ({ms = 1, s = 1, auto = 1})[unit] then
  return redis.error_reply('ERR a batch has 1 to 1000 rows of id and token, now_ms and delay_ms are whole numbers, the unit is ms, s or auto; nothing was changed')
end
-- include: is_ms, find_lease
local function due(score) -- programs that write seconds compare whole seconds
  if is_ms(score) then return string.format('%.0f', now_ms + delay_ms) end
  return string.format('%.0f', delay_ms == 0 and math.floor(now_ms / 1000) or math.ceil((now_ms + delay_ms) / 1000))
end
local ids, back = {}, {}
for at = 4, #ARGV, 2 do
  local id, deadline = ARGV[at], find_lease(ARGV[at], ARGV[at + 1])
  if deadline then
    outcomes[#outcomes + 1], ids[#ids + 1] = 'moved', id
    back[#back + 1], back[#back + 2] = due(deadline), id
  end
end
if #ids == 0 then return outcomes end

redis.call('ZREMRANGEBYRANK', reserved, 1, 0) -- frees nothing: a drain may go on over maxmemory
redis.call('ZADD', queued, unpack(back))
redis.call('ZREM', reserved, unpack(ids))
return outcomes
