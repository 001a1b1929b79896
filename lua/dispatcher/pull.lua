-- Pull the next ready tasks out of the queue: at most once, with no lease and no second try.
--
-- moves    ready ->
-- KEYS     ready    list  tasks, first in, first out
-- ARGV     now_ms?  int   a test's clock; the server's when empty
--          limit    int   how many at most, 1 to 1000
-- returns  moved  (now_ms int)  rows (head bytes, size int, tail bytes, score str)  pulled
--          empty  nothing is ready
local ready = KEYS[1]
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local limit = tonumber(ARGV[2])
-- block: limit
if #ARGV < 2 or string.find(ARGV[1] .. ARGV[2], '%D') or #ARGV[1] > 13 or not limit or limit < 1 or limit > 1000 then
  return redis.error_reply('ERR limit is 1 to 1000, now_ms a whole number; nothing was changed')
end
-- end
local rows = {}
for at, task in ipairs(redis.call('LRANGE', ready, 0, limit - 1)) do
  rows[at] = {task, #task, string.sub(task, -64), ''}
end
if #rows == 0 then return {'empty'} end

redis.call('LTRIM', ready, #rows, -1)
return {'moved', now_ms, rows}
