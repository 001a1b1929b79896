-- Extend leases: move their deadline, since the worker is still at work. The lease has another token from then on.
--
-- writes   reserved
-- KEYS     queued    zset  id by due
--          reserved  zset  id by lease deadline
-- ARGV     now_ms?   int  a test's clock; the server's when empty
--          ttr_ms?   int  how long from now; a minute when empty
--          unit      str  ms, s or auto
--          each      (id bytes, token str)
-- returns each  extended  (token str, deadline_ms int)  extended
--               stale     this lease is over: the job is queued again, or somebody else holds it
--               gone      no such job
local queued, reserved = KEYS[1], KEYS[2]
for _, at in ipairs({1, 2}) do
  if #ARGV < 3 or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 3 arguments and rows, whole numbers where the header says int; nothing was changed')
  end
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local ttr_ms, unit, MS = tonumber(ARGV[2]) or 60000, ARGV[3], '100000000000'
redis.call('ZCARD', queued)
redis.call('ZCARD', reserved)
if #ARGV < 5 or #ARGV > 2003 or #ARGV % 2 == 0 or #ARGV[1] > 13 or string.find(ARGV[1], '%D')
  or ttr_ms < 1 or ttr_ms > 31536000000 or not ({ms = 1, s = 1, auto = 1})[unit] then
  return redis.error_reply('ERR a batch has 1 to 1000 rows of id and token, ttr_ms is at least 1 and at most a year, the unit ms, s or auto; nothing was changed')
end
-- block: is_ms
local has_ms = redis.call('ZCOUNT', queued, MS, '(9e15') + redis.call('ZCOUNT', reserved, MS, '(9e15') > 0
local function is_ms(score) -- a score below 10^8, or beyond all time, tells no unit: then that of the others
  if unit ~= 'auto' then return unit == 'ms' end
  if score < 1e8 or score > 9e15 then return has_ms end
  return score >= 1e11
end
-- end
local deadline_ms = now_ms + ttr_ms + (clock[2] % 999 + 1) / 1000
local words, later, seen = {}, {}, {}
for at = 4, #ARGV, 2 do
  local id, token = ARGV[at], tonumber(ARGV[at + 1])
  local deadline = tonumber(not seen[id] and redis.call('ZSCORE', reserved, id) or nil)
  if deadline and deadline == token then
    local score = string.format('%.17g', is_ms(deadline) and deadline_ms or deadline_ms / 1000)
    words[#words + 1], seen[id] = {'extended', score, math.floor(deadline_ms)}, true
    later[#later + 1], later[#later + 2] = score, id
  else
    words[#words + 1] = (seen[id] or deadline or redis.call('ZSCORE', queued, id)) and 'stale' or 'gone'
  end
end
if #later == 0 then return words end

redis.call('ZREMRANGEBYRANK', reserved, 1, 0) -- frees nothing: a drain may go on over maxmemory
redis.call('ZADD', reserved, unpack(later))
return words
