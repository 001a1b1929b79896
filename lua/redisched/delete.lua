-- Delete jobs by id wherever they are, with their bodies; also ids without a body and bodies without a place.
--
-- A job under a lease that is not over needs force; its worker's later answer is then `gone`.
--
-- moves    queued due reserved expired ->
-- writes   jobs expiries
-- KEYS     jobs                         hash  body by id
--          queued (queued due)          zset  id by due
--          reserved (reserved expired)  zset  id by lease deadline
--          expiries                     zset  id by leases that rqtui saw expire
-- ARGV     now_ms?  int   a test's clock; the server's when empty
--          force?   bool  even when a worker holds it
--          each     (id bytes, token? str)
-- returns each  moved     deleted
--               reserved  a worker holds it; force it
--               stale     this lease is over: the job is queued again, or somebody else holds it
--               gone      no such job
local jobs, queued, reserved, expiries = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local force = ARGV[2] == '1'
redis.call('HLEN', jobs)
for _, key in ipairs({queued, reserved, expiries}) do redis.call('ZCARD', key) end
if #ARGV < 4 or #ARGV > 2002 or #ARGV % 2 == 1 or #ARGV[1] > 13 or string.find(ARGV[1], '%D') then
  return redis.error_reply('ERR a batch has 1 to 1000 rows of id and token, now_ms is a whole number; nothing was changed')
end
local words, ids, seen = {}, {}, {}
for at = 3, #ARGV, 2 do
  local id, token = ARGV[at], ARGV[at + 1]
  local deadline = tonumber(redis.call('ZSCORE', reserved, id) or nil)
  local stands = deadline or redis.call('ZSCORE', queued, id) or redis.call('HEXISTS', jobs, id) == 1
  if seen[id] or not stands then
    words[#words + 1] = 'gone'
  elseif token ~= '' and tonumber(token) ~= deadline then
    words[#words + 1] = 'stale'
  elseif deadline and not force and (deadline < 1e11 and deadline * 1000 or deadline) > now_ms then
    words[#words + 1] = 'reserved'
  else
    words[#words + 1], seen[id], ids[#ids + 1] = 'moved', true, id
  end
end
if #ids == 0 then return words end

redis.call('ZREM', queued, unpack(ids))
redis.call('ZREM', reserved, unpack(ids))
redis.call('HDEL', jobs, unpack(ids))
redis.pcall('ZREM', expiries, unpack(ids))
return words
