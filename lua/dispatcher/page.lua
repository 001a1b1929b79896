-- Return a page of the tasks of a place, in the order of the place.
--
-- `head` is the whole task up to 4096 bytes, or up to `body_bytes` if that is more; for a longer task it is the first
-- 4096 bytes. `tail` has the last 64 bytes, and `size` is the length. `score` is the due time as stored, and empty for
-- a ready task.
--
-- KEYS     delayed ready
-- ARGV     now_ms?     int  a test's clock; the server's when empty
--          place       str  delayed or ready
--          offset      int  how many tasks to skip; -1: the last page, -1 - n: the one that ends n before the end
--          limit       int  how many at most, 1 to 1000
--          body_bytes  int  return tasks of up to this size whole; -1: all
-- returns  page  (now_ms int, total int)  rows (head bytes, size int, tail bytes, score str)
-- include: keys, arguments, server_time, args
if place ~= 'delayed' and place ~= 'ready' then return redis.error_reply('ERR the place is delayed or ready') end
if not limit or limit < 1 or limit > 1000 or not offset or not body_bytes then
  return redis.error_reply('ERR offset and body_bytes are whole numbers, limit is 1 to 1000')
end
local whole = body_bytes < 0 and math.huge or math.max(4096, body_bytes)
local is_ready = place == 'ready'
local total = is_ready and redis.call('LLEN', ready) or redis.call('ZCARD', delayed)
offset = offset < 0 and math.max(0, total - limit + offset + 1) or offset + 0 -- `+ 0` turns -0 into 0
local last = offset + limit - 1
local tasks = is_ready and redis.call('LRANGE', ready, offset, last) or redis.call('ZRANGE', delayed, offset, last, 'WITHSCORES')
local rows = {}
for i = 1, #tasks, is_ready and 1 or 2 do
  local task = tasks[i]
  local head = #task <= whole and task or string.sub(task, 1, 4096)
  rows[#rows + 1] = {head, #task, string.sub(task, -64), is_ready and '' or tasks[i + 1]}
end
return {'page', now_ms, total, rows}
