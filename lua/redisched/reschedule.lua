-- Reschedule queued jobs: give them another due time; one that is already over makes them due.
--
-- With a unit of the option, it is written in that: this mends a topic that holds both.
--
-- moves    queued due -> queued | due
-- KEYS     queued (queued due)          zset  id by due
--          reserved (reserved expired)  zset  id by lease deadline
-- ARGV     now_ms?    int  a test's clock; the server's when empty
--          due_ms?    int  the new due time
--          delay_ms?  int  or so long from now
--          unit       str  ms, s or auto
--          each       (id bytes)
-- returns each  moved        rescheduled
--               wrong_place  a worker holds it
--               gone         no such job
local queued, reserved = KEYS[1], KEYS[2]
for _, at in ipairs({1, 2, 3}) do
  if #ARGV < 4 or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 4 arguments, whole numbers where the header says int; nothing was changed')
  end
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local due_ms, unit, MS = tonumber(ARGV[2]) or now_ms + (tonumber(ARGV[3]) or 0), ARGV[4], '100000000000'
redis.call('ZCARD', queued)
redis.call('ZCARD', reserved)
if #ARGV < 5 or #ARGV > 1004 or #ARGV[1] > 13 or string.find(ARGV[1], '%D') or due_ms < 0 or not ({ms = 1, s = 1, auto = 1})[unit] then
  return redis.error_reply('ERR a batch has 1 to 1000 ids, now_ms and due_ms are whole numbers, the unit is ms, s or auto; nothing was changed')
end
-- block: is_ms
local has_ms = redis.call('ZCOUNT', queued, MS, '(9e15') + redis.call('ZCOUNT', reserved, MS, '(9e15') > 0
local function is_ms(score) -- a score below 10^8, or beyond all time, tells no unit: then that of the others
  if unit ~= 'auto' then return unit == 'ms' end
  if score < 1e8 or score > 9e15 then return has_ms end
  return score >= 1e11
end
-- end
local in_s = due_ms <= now_ms and math.floor(due_ms / 1000) or math.ceil(due_ms / 1000)
local words, dues = {}, {}
for at = 5, #ARGV do
  local id = ARGV[at]
  local due = tonumber(redis.call('ZSCORE', queued, id) or nil)
  if due then
    words[#words + 1] = 'moved'
    dues[#dues + 1], dues[#dues + 2] = string.format('%.0f', is_ms(due) and due_ms or in_s), id
  else
    words[#words + 1] = redis.call('ZSCORE', reserved, id) and 'wrong_place' or 'gone'
  end
end
if #dues == 0 then return words end

redis.call('ZREMRANGEBYRANK', queued, 1, 0) -- frees nothing: a drain may go on over maxmemory
redis.call('ZADD', queued, unpack(dues))
return words
