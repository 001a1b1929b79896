-- All that a topic knows of one job.
--
-- An id in both sorted sets is shown as reserved; a body that stands in none as queued, with an empty score.
--
-- KEYS     jobs                         hash  body by id
--          queued (queued due)          zset  id by due
--          reserved (reserved expired)  zset  id by lease deadline
--          expiries                     zset  id by leases that rqtui saw expire
-- ARGV     now_ms?     int    a test's clock; the server's when empty
--          id          bytes  the job
--          body_bytes  int    a longer body is left out; -1 for all of it
-- returns  found  (now_ms int, place str, id bytes, score bytes, bytes int, body bytes, has_body bool, expiries int, both bool)
--          gone   no such job
local jobs, queued, reserved, expiries = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
for _, at in ipairs({1, 3}) do
  if #ARGV < 3 or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 3 arguments, whole numbers where the header says int; nothing was changed')
  end
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local id, body_bytes = ARGV[2], tonumber(ARGV[3])
if not body_bytes then return redis.error_reply('ERR body_bytes is a whole number') end
local due, deadline = redis.call('ZSCORE', queued, id), redis.call('ZSCORE', reserved, id)
local has_body, size = redis.call('HEXISTS', jobs, id), redis.call('HSTRLEN', jobs, id)
if not due and not deadline and has_body == 0 then return {'gone'} end
local at = tonumber(deadline or due or 'inf')
local is_past = (at < 100000000000 and at * 1000 or at) <= now_ms
local place = deadline and (is_past and 'expired' or 'reserved') or (is_past and 'due' or 'queued')
local body = (body_bytes < 0 or size <= body_bytes) and redis.call('HGET', jobs, id) or ''
local expired = tonumber(redis.call('ZSCORE', expiries, id) or 0)
return {'found', now_ms, place, id, deadline or due or '', size, body, has_body, expired, due and deadline and 1 or 0}
