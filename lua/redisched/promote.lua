-- Promote queued jobs: make them due now.
--
-- moves    queued -> due
-- KEYS     queued (queued due)          zset  id by due
--          reserved (reserved expired)  zset  id by lease deadline
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          unit     str  ms, s or auto
--          each     (id bytes)
-- returns each  moved        promoted
--               wrong_place  it is due already, or a worker holds it
--               gone         no such job
local queued, reserved = KEYS[1], KEYS[2]
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local unit = ARGV[2]
redis.call('ZCARD', queued)
redis.call('ZCARD', reserved)
if #ARGV < 3 or #ARGV > 1002 or #ARGV[1] > 13 or string.find(ARGV[1], '%D') or not ({ms = 1, s = 1, auto = 1})[unit] then
  return redis.error_reply('ERR a batch has 1 to 1000 ids, now_ms is a whole number, the unit ms, s or auto; nothing was changed')
end
local MS = '100000000000'
local has_ms = redis.call('ZCOUNT', queued, MS, '(9e15') + redis.call('ZCOUNT', reserved, MS, '(9e15') > 0
local words, dues, seen = {}, {}, {}
for at = 3, #ARGV do
  local id = ARGV[at]
  local due = tonumber(redis.call('ZSCORE', queued, id) or nil)
  if due and not seen[id] and (due < 1e11 and due * 1000 or due) > now_ms then
    local in_ms = unit == 'ms' or unit == 'auto' and due >= 1e11 and (due <= 9e15 or has_ms) -- beyond all time tells no unit
    words[#words + 1], seen[id] = 'moved', true
    dues[#dues + 1], dues[#dues + 2] = string.format('%.0f', in_ms and now_ms or math.floor(now_ms / 1000)), id
  else
    words[#words + 1] = (due or redis.call('ZSCORE', reserved, id)) and 'wrong_place' or 'gone'
  end
end
if #dues == 0 then return words end

redis.call('ZREMRANGEBYRANK', queued, 1, 0) -- frees nothing: a drain may go on over maxmemory
redis.call('ZADD', queued, unpack(dues))
return words
