-- Extend leases to a later deadline. An extended lease has a new token.
--
-- writes   reserved
-- KEYS     queued reserved
-- ARGV     now_ms?   int  a test's clock; the server's when empty
--          ttr_ms?   int  the new lease from now; a minute when empty
--          unit      str  ms, s or auto
--          each      (id bytes, token str)
-- returns each  extended  (token str, deadline_ms int)  extended
--               stale     this lease is over: the job is queued again, or has another lease
--               gone      no such job
-- include: keys, integers, key_types, server_time
local ttr_ms, unit, MS = tonumber(ARGV[2]) or 60000, ARGV[3], '100000000000'
if #ARGV < 5 or #ARGV > 2003 or #ARGV % 2 == 0 or #ARGV[1] > 13 or string.find(ARGV[1], '%D')
  or ttr_ms < 1 or ttr_ms > 31536000000 or not ({ms = 1, s = 1, auto = 1})[unit] then
  return redis.error_reply('ERR a batch has 1 to 1000 rows of id and token, ttr_ms is at least 1 and at most a year, the unit ms, s or auto; nothing was changed')
end
-- include: is_ms, find_lease
local deadline_ms = now_ms + ttr_ms + (clock[2] % 999 + 1) / 1000
local later = {}
for at = 4, #ARGV, 2 do
  local id, deadline = ARGV[at], find_lease(ARGV[at], ARGV[at + 1])
  if deadline then
    local score = string.format('%.17g', is_ms(deadline) and deadline_ms or deadline_ms / 1000)
    outcomes[#outcomes + 1] = {'extended', score, math.floor(deadline_ms)}
    later[#later + 1], later[#later + 2] = score, id
  end
end
if #later == 0 then return outcomes end

redis.call('ZREMRANGEBYRANK', reserved, 1, 0) -- frees nothing: a drain may go on over maxmemory
redis.call('ZADD', reserved, unpack(later))
return outcomes
