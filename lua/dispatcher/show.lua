-- All about one task: the bytes, where it stands and when it is due.
--
-- A task is asked for by all its bytes in `head`; a longer one by its first bytes, its length in `size` and its last bytes
-- in `tail`. The delayed are looked through first. Of ready tasks the first and the last 100 000 are compared; where only
-- a beginning is known, the first and the last 5 000 of both places.
--
-- KEYS     delayed  zset  task by due (s)
--          ready    list  tasks, first in, first out
-- ARGV     now_ms?     int    a test's clock; the server's when empty
--          head        bytes  its bytes, or the first of them
--          size        int    how many it has
--          tail        bytes  its last bytes
--          body_bytes  int    up to so many it comes whole, or up to 4096; -1: always
-- returns  found  (now_ms int, place str, head bytes, size int, tail bytes, score str)
--          gone   no such task
local delayed, ready = KEYS[1], KEYS[2]
for _, at in ipairs({1, 3, 5}) do
  if #ARGV < 5 or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 5 arguments, whole numbers where the header says int; nothing was changed')
  end
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local head, size, tail, body_bytes = ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
if not size or not body_bytes then return redis.error_reply('ERR size and body_bytes are whole numbers') end
local function found(place, task)
  local whole = body_bytes < 0 and math.huge or math.max(4096, body_bytes)
  local first = #task <= whole and task or string.sub(task, 1, 4096)
  local score = place == 'delayed' and redis.call('ZSCORE', delayed, task) or ''
  return {'found', now_ms, place, first, #task, string.sub(task, -64), score}
end
local waiting, length = redis.call('ZCARD', delayed), redis.call('LLEN', ready)
if #head == size then
  if redis.call('ZSCORE', delayed, head) then return found('delayed', head) end
  local at = redis.call('LPOS', ready, head, 'MAXLEN', 100000) or redis.call('LPOS', ready, head, 'RANK', -1, 'MAXLEN', 100000)
  return at and found('ready', head) or {'gone'}
end
local function look(place, command, key, count) -- a few at a time: they may be long
  for _, range in ipairs({{0, math.min(5000, count) - 1}, {math.max(5000, count - 5000), count - 1}}) do
    for from = range[1], range[2], 10 do
      for _, task in ipairs(redis.call(command, key, from, math.min(from + 9, range[2]))) do
        if #task == size and string.sub(task, 1, #head) == head and string.sub(task, -#tail) == tail then return found(place, task) end
      end
    end
  end
end
return look('delayed', 'ZRANGE', delayed, waiting) or look('ready', 'LRANGE', ready, length) or {'gone'}
