-- A page of the tasks of a place, in its order.
--
-- Tasks of up to 4096 bytes, or `body_bytes` if that is more, are whole in `head`; of longer ones it has the first 4096.
-- `tail` has the last 64 bytes, `size` the length, `score` the due time as it is written, empty for a ready task.
--
-- KEYS     delayed  zset  task by due (s)
--          ready    list  tasks, first in, first out
-- ARGV     now_ms?     int  a test's clock; the server's when empty
--          place       str  delayed or ready
--          offset      int  how many to pass over; -1 for the last page
--          limit       int  how many at most, 1 to 1000
--          body_bytes  int  tasks of up to so many bytes come whole; -1: all
-- returns  page  (now_ms int, total int)  rows (head bytes, size int, tail bytes, score str)
local delayed, ready = KEYS[1], KEYS[2]
for _, at in ipairs({1, 3, 4, 5}) do
  if #ARGV < 5 or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 5 arguments, whole numbers where the header says int; nothing was changed')
  end
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local place, offset, limit, body_bytes = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
if place ~= 'delayed' and place ~= 'ready' then return redis.error_reply('ERR the place is delayed or ready') end
if not limit or limit < 1 or limit > 1000 or not offset or not body_bytes then
  return redis.error_reply('ERR offset and body_bytes are whole numbers, limit is 1 to 1000')
end
local whole = body_bytes < 0 and math.huge or math.max(4096, body_bytes)
local is_ready = place == 'ready'
local total = is_ready and redis.call('LLEN', ready) or redis.call('ZCARD', delayed)
offset = offset < 0 and math.max(0, total - limit) or offset + 0 -- of -0, too
local last = offset + limit - 1
local found = is_ready and redis.call('LRANGE', ready, offset, last) or redis.call('ZRANGE', delayed, offset, last, 'WITHSCORES')
local rows = {}
for i = 1, #found, is_ready and 1 or 2 do
  local task = found[i]
  local head = #task <= whole and task or string.sub(task, 1, 4096)
  rows[#rows + 1] = {head, #task, string.sub(task, -64), is_ready and '' or found[i + 1]}
end
return {'page', now_ms, total, rows}
