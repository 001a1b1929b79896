-- Return one job of a topic.
--
-- An id in both sorted sets is shown as reserved. A body in neither of them is shown as queued, with an empty score.
--
-- KEYS     jobs queued reserved expiries
-- ARGV     now_ms?     int    a test's clock; the server's when empty
--          id          bytes  the job
--          body_bytes  int    a longer body is left out; -1 returns any body
-- returns  found  (now_ms int, place str, id bytes, score bytes, bytes int, body bytes, has_body bool, expiries int, both bool)
--          gone   no such job
-- include: keys, integers, server_time, args
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
