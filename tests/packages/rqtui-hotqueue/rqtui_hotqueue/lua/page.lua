-- A page of those that wait, the next one first.
--
-- KEYS     waiting
-- ARGV     now_ms?     int  a test's clock; the server's when empty
--          place       str  waiting
--          offset      int  how many to pass over; -1: the last page, -1 - n: the one that ends n before the end
--          limit       int  how many at most, 1 to 1000
--          body_bytes  int  longer entries (and longer than 4096) are cut; -1: none
-- returns  page  (now_ms int, total int)  rows (head bytes, size int, tail bytes)
-- include: keys, args, clock
if place ~= 'waiting' or not offset or not body_bytes or not limit or limit < 1 or limit > 1000 then
  return redis.error_reply('ERR the place is waiting, limit is 1 to 1000')
end
local total, rows = redis.call('LLEN', waiting), {}
if offset < 0 then offset = math.max(0, total - limit + offset + 1) end
local most = body_bytes < 0 and math.huge or math.max(4096, body_bytes)
for _, entry in ipairs(redis.call('LRANGE', waiting, offset, offset + limit - 1)) do
  rows[#rows + 1] = {#entry > most and string.sub(entry, 1, 4096) or entry, #entry, string.sub(entry, -64)}
end
return {'page', now_ms, total, rows}
