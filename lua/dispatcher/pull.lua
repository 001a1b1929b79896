-- Pull the next ready tasks out of the queue: at most once, with no lease and no retry.
--
-- moves    ready ->
-- KEYS     ready
-- ARGV     now_ms?  int   a test's clock; the server's when empty
--          limit    int   how many at most, 1 to 1000
-- returns  moved  (now_ms int)  rows (head bytes, size int, tail bytes, score str)  pulled
--          empty  nothing is ready
-- include: keys, server_time, args, limit
local rows = {}
for at, task in ipairs(redis.call('LRANGE', ready, 0, limit - 1)) do
  rows[at] = {task, #task, string.sub(task, -64), ''}
end
if #rows == 0 then return {'empty'} end

redis.call('LTRIM', ready, #rows, -1)
return {'moved', now_ms, rows}
