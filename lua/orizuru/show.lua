-- One job by its bytes, or by the beginning, length and end of long ones.
--
-- `place` is where its first copy stands: in the source, else with a consumer, else among the rejected. Whole bytes are looked
-- for among the 50000 oldest and the 50000 newest entries of each list; long ones among the 1000 oldest of each list.
--
-- derived  orizuru:consumers:<worker>:processing
--          orizuru:consumers:<worker>:unacked
--          orizuru:consumers:<worker>:heartbeat
-- KEYS     source      list  ready jobs, the next one last
--          consumers   set   names of registered consumers
--          heartbeats  hash  last beat (unix ms) by name
-- ARGV     now_ms?     int    a test's clock; the server's when empty
--          silent_ms   int    a consumer is dead after so long without a beat
--          head        bytes  the entry, or its first 4096 bytes
--          size        int    its whole length
--          tail        bytes  its last 64 bytes
--          body_bytes  int    a longer entry (and longer than 4096) is cut; -1: none
--          each        (worker bytes)  consumers whose lists were seen
-- returns  found  (now_ms int, place str, head bytes, size int, tail bytes, worker bytes, beat_ms int, deadline_ms int)
--          gone   nothing like it stands there
local source, consumers, heartbeats = KEYS[1], KEYS[2], KEYS[3]
for _, at in ipairs({1, 2, 4, 6}) do
  if #ARGV < 6 or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 6 arguments, whole numbers where the header says int; nothing was changed')
  end
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local silent_ms, head, size, tail, body_bytes = tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6])
if not silent_ms or not size or not body_bytes then
  return redis.error_reply('ERR silent_ms, size and body_bytes are whole numbers')
end
local asked_from = 7
-- block: consumers
local names, seen = {}, {}
local function add(name)
  if not seen[name] and #names < 1000 then names[#names + 1], seen[name] = name, true end
end
for i = asked_from, #ARGV do add(ARGV[i]) end
for _, name in ipairs(redis.call('SSCAN', consumers, 0, 'COUNT', 1000)[2]) do add(name) end
local beats = redis.call('HSCAN', heartbeats, 0, 'COUNT', 1000)[2]
for i = 1, #beats, 2 do add(beats[i]) end
table.sort(names)
-- end

local function look(key)
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
local function found(entry, place, name)
  local left_ms = redis.call('PTTL', 'orizuru:consumers:' .. name .. ':heartbeat')
  local beat = tonumber(string.match(redis.call('HGET', heartbeats, name) or '', '^%d+$') or '')
  local deadline = beat and left_ms ~= -1 and math.max(left_ms >= 0 and now_ms + left_ms or 0, beat + silent_ms) or -1
  local whole = body_bytes < 0 or size <= math.max(4096, body_bytes)
  return {'found', now_ms, place, whole and entry or string.sub(entry, 1, 4096), size, string.sub(entry, -64), name,
    beat or -1, place == 'processing' and deadline or -1}
end
redis.call('LLEN', source)
local entry = look(source)
if entry then return found(entry, 'source', '') end
for _, place in ipairs({'processing', 'unacked'}) do
  for _, name in ipairs(names) do
    entry = look('orizuru:consumers:' .. name .. ':' .. place)
    if entry then return found(entry, place, name) end
  end
end
return 'gone'
