-- A page of the jobs that wait.
--
-- KEYS     waiting  list  ids
-- ARGV     now_ms?     int  a test's clock; the server's when empty
--          place       str  which
--          offset      int  how many to pass over; -1: the last page, -1 - n: the one that ends n before the end
--          limit       int  how many at most
--          body_bytes  int  how much of each body
-- returns  page  (now_ms int, total int) rows (id bytes)
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
if ARGV[2] ~= 'waiting' then return redis.error_reply('ERR no such place') end
local total, offset, limit = redis.call('LLEN', KEYS[1]), tonumber(ARGV[3]), tonumber(ARGV[4])
if offset < 0 then offset = math.max(0, total - limit + offset + 1) end
local rows = {}
for _, id in ipairs(redis.call('LRANGE', KEYS[1], offset, offset + limit - 1)) do rows[#rows + 1] = {id} end
return {'page', now_ms, total, rows}
