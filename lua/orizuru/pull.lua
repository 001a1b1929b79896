-- Pull the next jobs out of the queue: at most once, with no lease and no retry.
--
-- moves    source ->
-- KEYS     source
-- ARGV     now_ms?  int   a test's clock; the server's when empty
--          limit    int   how many at most, 1 to 1000
-- returns  moved  (now_ms int)  rows (head bytes, size int, tail bytes, worker bytes, beat_ms int, deadline_ms int)  pulled
--          empty  nothing is ready
-- include: keys, arguments, server_time, args
if not limit or limit < 1 or limit > 1000 then return redis.error_reply('ERR limit is 1 to 1000; nothing was changed') end
local found, rows = redis.call('LRANGE', source, -limit, -1), {}
if #found == 0 then return 'empty' end
for i = #found, 1, -1 do rows[#rows + 1] = {found[i], #found[i], string.sub(found[i], -64), '', -1, -1} end

redis.call('LTRIM', source, 0, -#found - 1)
return {'moved', now_ms, rows}
