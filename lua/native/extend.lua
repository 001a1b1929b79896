-- Extend leases: move their deadline, because the worker is still running the job.
--
-- writes   reserved
-- KEYS     reserved jobs attempts meta
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          ttr_ms?   int     duration from now; the job's own value when empty
--          each      (id bytes, token str)
-- returns each  extended   (deadline_ms int)  extended
--               cancelled  the job was cancelled; its deadline does not change
--               stale      this lease is over; another worker may hold the job
--               gone       no such job
-- include: keys, args
local version, ttr_default = unpack(redis.call('HMGET', meta, 'version', 'ttr_ms'))
-- include: key_types(reserved jobs attempts), opening, batch_size
if string.find(ARGV[1] .. ARGV[2], '%D') or #ARGV[1] > 13 or #ARGV[2] > 13 or ttr_ms == 0 then
  return redis.error_reply('ERR ttr_ms and now_ms are whole numbers, ttr_ms at least 1; nothing was changed')
end
local outcomes, deadlines = {}, {}
for at = 3, #ARGV, 2 do
  local id = ARGV[at]
  local line = redis.call('HGET', attempts, id)
  local token, flag = string.match(line or '', '^%d+ (%S+) %S+ %S+ %S+ (%S) ')
  if token ~= ARGV[at + 1] or not redis.call('ZSCORE', reserved, id) then
    outcomes[#outcomes + 1] = (line or redis.call('HEXISTS', jobs, id) == 1) and 'stale' or 'gone'
  elseif flag == 'c' then
    outcomes[#outcomes + 1] = 'cancelled'
  else
    local own = ttr_ms or tonumber(string.match(redis.call('HGET', jobs, id) or '', '^%d+ %S+ %S+ (%S+) ') or '')
    local deadline = now_ms + (own or (tonumber(ttr_default) or 30000))
    outcomes[#outcomes + 1] = {'extended', deadline}
    deadlines[#deadlines + 1], deadlines[#deadlines + 2] = deadline, id
  end
end
if #deadlines == 0 then return outcomes end

redis.call('ZREM', reserved, '') -- removes nothing, but lets the drain continue over maxmemory
redis.call('ZADD', reserved, unpack(deadlines))
return outcomes
