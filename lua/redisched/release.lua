-- Release jobs that a worker holds: back to the queue, due now or later.
--
-- (The README of this system calls `release` the end of a job; its code does this.)
--
-- moves    reserved expired -> queued | due
-- KEYS     queued (queued due)          zset  id by due
--          reserved (reserved expired)  zset  id by lease deadline
-- ARGV     now_ms?    int  a test's clock; the server's when empty
--          delay_ms?  int  not before so long from now
--          unit       str  ms, s or auto
--          each       (id bytes, token str)
-- returns each  moved  released
--               stale  this lease is over: the job is queued again, or somebody else holds it
--               gone   no such job
local queued, reserved = KEYS[1], KEYS[2]
for _, at in ipairs({1, 2}) do
  if #ARGV < 3 or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 3 arguments, whole numbers where the header says int; nothing was changed')
  end
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local delay_ms, unit, MS = tonumber(ARGV[2]) or 0, ARGV[3], '100000000000'
redis.call('ZCARD', queued)
redis.call('ZCARD', reserved)
if #ARGV < 5 or #ARGV > 2003 or #ARGV % 2 == 0 or #ARGV[1] > 13 or string.find(ARGV[1], '%D') or delay_ms < 0
  or not ({ms = 1, s = 1, auto = 1})[unit] then
  return redis.error_reply('ERR a batch has 1 to 1000 rows of id and token, now_ms and delay_ms are whole numbers, the unit is ms, s or auto; nothing was changed')
end
-- block: is_ms
local has_ms = redis.call('ZCOUNT', queued, MS, '(9e15') + redis.call('ZCOUNT', reserved, MS, '(9e15') > 0
local function is_ms(score) -- a score below 10^8, or beyond all time, tells no unit: then that of the others
  if unit ~= 'auto' then return unit == 'ms' end
  if score < 1e8 or score > 9e15 then return has_ms end
  return score >= 1e11
end
-- end
local function due(score) -- whole seconds: the clock of the programs that write seconds
  if is_ms(score) then return string.format('%.0f', now_ms + delay_ms) end
  return string.format('%.0f', delay_ms == 0 and math.floor(now_ms / 1000) or math.ceil((now_ms + delay_ms) / 1000))
end
local words, ids, back, seen = {}, {}, {}, {}
for at = 4, #ARGV, 2 do
  local id, token = ARGV[at], tonumber(ARGV[at + 1])
  local deadline = tonumber(not seen[id] and redis.call('ZSCORE', reserved, id) or nil)
  if deadline and deadline == token then
    words[#words + 1], seen[id], ids[#ids + 1] = 'moved', true, id
    back[#back + 1], back[#back + 2] = due(deadline), id
  else
    words[#words + 1] = (seen[id] or deadline or redis.call('ZSCORE', queued, id)) and 'stale' or 'gone'
  end
end
if #ids == 0 then return words end

redis.call('ZREMRANGEBYRANK', reserved, 1, 0) -- frees nothing: a drain may go on over maxmemory
redis.call('ZADD', queued, unpack(back))
redis.call('ZREM', reserved, unpack(ids))
return words
