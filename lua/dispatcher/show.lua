-- Find one task: its bytes, place and due time.
--
-- The task is given by all its bytes in `head`, or by its first bytes, its length in `size` and its last bytes in
-- `tail`. Delayed tasks are searched first. For complete bytes, the first and the last 100 000 ready tasks are
-- searched; otherwise the first and the last 5 000 tasks of both places.
--
-- KEYS     delayed ready
-- ARGV     now_ms?     int    a test's clock; the server's when empty
--          head        bytes  its bytes, or the first of them
--          size        int    their number
--          tail        bytes  its last bytes
--          body_bytes  int    return a task of up to this size, or up to 4096, whole; -1: always
-- returns  found  (now_ms int, place str, head bytes, size int, tail bytes, score str)
--          gone   no such task
-- include: keys, arguments, server_time, args
if not size or not body_bytes then return redis.error_reply('ERR size and body_bytes are whole numbers') end
local function reply(place, task)
  local whole = body_bytes < 0 and math.huge or math.max(4096, body_bytes)
  local first = #task <= whole and task or string.sub(task, 1, 4096)
  local score = place == 'delayed' and redis.call('ZSCORE', delayed, task) or ''
  return {'found', now_ms, place, first, #task, string.sub(task, -64), score}
end
local waiting, length = redis.call('ZCARD', delayed), redis.call('LLEN', ready)
if #head == size then
  if redis.call('ZSCORE', delayed, head) then return reply('delayed', head) end
  local at = redis.call('LPOS', ready, head, 'MAXLEN', 100000) or redis.call('LPOS', ready, head, 'RANK', -1, 'MAXLEN', 100000)
  return at and reply('ready', head) or {'gone'}
end
local function search(place, command, key, count) -- Read a few at a time, because tasks may be long.
  for _, range in ipairs({{0, math.min(5000, count) - 1}, {math.max(5000, count - 5000), count - 1}}) do
    for from = range[1], range[2], 10 do
      for _, task in ipairs(redis.call(command, key, from, math.min(from + 9, range[2]))) do
        if #task == size and string.sub(task, 1, #head) == head and string.sub(task, -#tail) == tail then return reply(place, task) end
      end
    end
  end
end
return search('delayed', 'ZRANGE', delayed, waiting) or search('ready', 'LRANGE', ready, length) or {'gone'}
