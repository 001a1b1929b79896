-- Find one job by its bytes, or a long one by its first bytes, length and last bytes.
--
-- `place` is the place of the first copy: the source, else the jobs that a consumer holds, else the rejected jobs.
-- Complete bytes are searched for among the 50000 oldest and the 50000 newest entries of each list; cut ones among the
-- 1000 oldest entries of each list.
--
-- derived  orizuru:consumers:<worker>:processing
--          orizuru:consumers:<worker>:unacked
--          orizuru:consumers:<worker>:heartbeat
-- KEYS     source consumers heartbeats
-- ARGV     now_ms?     int    a test's clock; the server's when empty
--          silent_ms   int    a consumer without a heartbeat for this long is dead
--          head        bytes  the entry, or its first 4096 bytes
--          size        int    its whole length
--          tail        bytes  its last 64 bytes
--          body_bytes  int    an entry longer than this and than 4096 is cut; -1: none
--          each        (worker bytes)  further consumers whose lists exist
-- returns  found  (now_ms int, place str, head bytes, size int, tail bytes, worker bytes, beat_ms int, deadline_ms int)
--          gone   no such job
-- include: keys, arguments, server_time, args
if not silent_ms or not size or not body_bytes then return redis.error_reply('ERR silent_ms, size and body_bytes are whole numbers') end
local asked_from = 7
-- include: consumers, last_beat
table.sort(names)
local function find_in_list(key)
  local length = redis.pcall('LLEN', key)
  if type(length) ~= 'number' or length == 0 then return end
  if #head == size then
    local at = redis.call('LPOS', key, head, 'RANK', -1, 'MAXLEN', 50000)
    return (at or redis.call('LPOS', key, head, 'MAXLEN', 50000)) and head
  end
  for at = 1, math.min(length, 1000) do
    local entry = redis.call('LINDEX', key, -at)
    if #entry == size and string.sub(entry, 1, #head) == head and string.sub(entry, -#tail) == tail then return entry end
  end
end
local function reply(entry, place, name)
  local beat_ms, deadline_ms = last_beat(name)
  local whole = body_bytes < 0 or size <= math.max(4096, body_bytes)
  return {'found', now_ms, place, whole and entry or string.sub(entry, 1, 4096), size, string.sub(entry, -64), name,
    beat_ms, place == 'processing' and deadline_ms or -1}
end
-- include: key_types(source)
local entry = find_in_list(source)
if entry then return reply(entry, 'source', '') end
for _, place in ipairs({'processing', 'unacked'}) do
  for _, name in ipairs(names) do
    entry = find_in_list('orizuru:consumers:' .. name .. ':' .. place)
    if entry then return reply(entry, place, name) end
  end
end
return 'gone'
