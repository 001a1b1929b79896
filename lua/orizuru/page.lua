-- A page of the source, of what consumers hold, or of what they rejected; the oldest first.
--
-- Lists are pushed on the left and popped on the right, so the last entry comes first; consumers follow each other by name.
-- `beat_ms` is the consumer's last beat, `deadline_ms` the instant at which it counts as dead; -1 for none.
--
-- derived  orizuru:consumers:<worker>:processing
--          orizuru:consumers:<worker>:unacked
--          orizuru:consumers:<worker>:heartbeat
-- KEYS     source      list  ready jobs, the next one last
--          consumers   set   names of registered consumers
--          heartbeats  hash  last beat (unix ms) by name
-- ARGV     now_ms?     int   a test's clock; the server's when empty
--          silent_ms   int   a consumer is dead after so long without a beat
--          place       str   source, processing or unacked
--          offset      int   how many to pass over; -1 is the last page
--          limit       int   how many at most, 1 to 1000
--          body_bytes  int   longer entries (and longer than 4096) are cut; -1: none
--          each        (worker bytes)  consumers whose lists were seen
-- returns  page  (now_ms int, total int)  rows (head bytes, size int, tail bytes, worker bytes, beat_ms int, deadline_ms int)
local source, consumers, heartbeats = KEYS[1], KEYS[2], KEYS[3]
for _, at in ipairs({1, 2, 4, 5, 6}) do
  if #ARGV < 6 or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 6 arguments, whole numbers where the header says int; nothing was changed')
  end
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local silent_ms, place, offset, limit, body_bytes =
  tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
if place ~= 'source' and place ~= 'processing' and place ~= 'unacked' then
  return redis.error_reply('ERR the place is source, processing or unacked')
end
if not silent_ms or not offset or not body_bytes or not limit or limit < 1 or limit > 1000 then
  return redis.error_reply('ERR silent_ms, offset and body_bytes are whole numbers, limit is 1 to 1000')
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
if place == 'source' then names = {''} end

local function instants(name) -- of the last beat, and of the deadline
  local left_ms = redis.call('PTTL', 'orizuru:consumers:' .. name .. ':heartbeat')
  local beat = tonumber(string.match(redis.call('HGET', heartbeats, name) or '', '^%d+$') or '')
  local deadline = beat and left_ms ~= -1 and math.max(left_ms >= 0 and now_ms + left_ms or 0, beat + silent_ms) or -1
  return beat or -1, place == 'processing' and deadline or -1
end
local most = body_bytes < 0 and math.huge or math.max(4096, body_bytes)
local total, rows, lists = 0, {}, {}
for i, name in ipairs(names) do
  local key = place == 'source' and source or 'orizuru:consumers:' .. name .. ':' .. place
  local length = place == 'source' and redis.call('LLEN', key) or redis.pcall('LLEN', key)
  if type(length) ~= 'number' then length = 0 end -- a key of another type; `faults` names it
  total, lists[i] = total + length, {key, name, length}
end
local skip = offset < 0 and math.max(0, total - limit) or offset
for _, list in ipairs(lists) do
  local key, name, length = unpack(list)
  local at, last, step = skip, math.min(length, skip + limit - #rows), 1
  skip = math.max(0, skip - length)
  local beat_ms, deadline_ms = -1, -1
  if at < last and place ~= 'source' then beat_ms, deadline_ms = instants(name) end
  while at < last do -- in steps, so that huge entries are not in memory all at once
    step = math.min(step, last - at)
    local found, bytes = redis.call('LRANGE', key, -at - step, -at - 1), 0
    for i = #found, 1, -1 do
      local entry = found[i]
      bytes = bytes + #entry
      rows[#rows + 1] =
        {#entry <= most and entry or string.sub(entry, 1, 4096), #entry, string.sub(entry, -64), name, beat_ms, deadline_ms}
    end
    at, step = at + step, bytes < 1000000 and step * 4 or 1
  end
end
return {'page', now_ms, total, rows}
