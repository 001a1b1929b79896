-- Delete jobs from every place, with their bodies; also ids without a body and bodies without a place.
--
-- A job with a valid lease needs force. If its worker acks the job later, the reply is `gone`.
--
-- moves    queued due reserved expired ->
-- writes   jobs expiries
-- KEYS     jobs queued reserved expiries
-- ARGV     now_ms?  int   a test's clock; the server's when empty
--          force?   bool  even if a worker holds it
--          each     (id bytes, token? str)
-- returns each  moved     deleted
--               reserved  a worker holds it; force it
--               stale     this lease is over: the job is queued again, or has another lease
--               gone      no such job
-- include: keys, args, key_types, server_time
if #ARGV < 4 or #ARGV > 2002 or #ARGV % 2 == 1 or #ARGV[1] > 13 or string.find(ARGV[1], '%D') then
  return redis.error_reply('ERR a batch has 1 to 1000 rows of id and token, now_ms is a whole number; nothing was changed')
end
local outcomes, ids, seen = {}, {}, {}
for at = 3, #ARGV, 2 do
  local id, token = ARGV[at], ARGV[at + 1]
  local deadline = tonumber(redis.call('ZSCORE', reserved, id) or nil)
  local exists = deadline or redis.call('ZSCORE', queued, id) or redis.call('HEXISTS', jobs, id) == 1
  if seen[id] or not exists then
    outcomes[#outcomes + 1] = 'gone'
  elseif token ~= '' and tonumber(token) ~= deadline then
    outcomes[#outcomes + 1] = 'stale'
  elseif deadline and not force and (deadline < 1e11 and deadline * 1000 or deadline) > now_ms then
    outcomes[#outcomes + 1] = 'reserved'
  else
    outcomes[#outcomes + 1], seen[id], ids[#ids + 1] = 'moved', true, id
  end
end
if #ids == 0 then return outcomes end

redis.call('ZREM', queued, unpack(ids))
redis.call('ZREM', reserved, unpack(ids))
redis.call('HDEL', jobs, unpack(ids))
redis.pcall('ZREM', expiries, unpack(ids))
return outcomes
