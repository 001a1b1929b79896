-- One job that waits, by its id.
--
-- KEYS     waiting  list  ids
-- ARGV     now_ms?     int    a test's clock; the server's when empty
--          id          bytes  the job
--          body_bytes  int    a longer body is left out; -1 for all of it
-- returns  found  (now_ms int, place str, id bytes)  here it is
--          gone   no such job
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
for _, id in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
  if id == ARGV[2] then return {'found', now_ms, 'waiting', id} end
end
return {'gone'}
