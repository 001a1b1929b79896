-- What each of many queues holds at one instant: `counts.lua` for all of them in one call.
--
-- derived  <prefix>:job:<id>
--          <prefix>:worker:<worker>
-- KEYS     suspended  string  there while all workers rest
--          each (scheduled zset, deferred zset, ready_to_enqueue zset, queued list, started zset, intermediate list,
--               finished zset, failed zset, canceled zset, workers set)  the keys of a queue
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          prefix   str  before all keys: rq
-- returns  counted  (now_ms int, paused bool)
--                   rows (scheduled int, deferred int, ready_to_enqueue int, queued int, started int, intermediate int,
--                   finished int, failed int, canceled int, oldest_ms int, due_ms int, overdue int, deadline_ms int,
--                   expired int, workers int)  a row per queue, in the order of the keys
local suspended = KEYS[1]
if #ARGV < 2 or #ARGV[1] > 15 or string.find(ARGV[1], '%D') then
  return redis.error_reply('ERR now_ms is a whole number; nothing was changed')
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local prefix = ARGV[2]
-- block: rq_instant, read, tolerant, rq_tally
local function instant(text)
  local y, m, d, h, min, s, rest = string.match(text or '', '^(%d%d%d%d)%-(%d%d)%-(%d%d)[T ](%d%d):(%d%d):(%d%d)(.*)$')
  if not y then return nil end
  y, m = tonumber(y), tonumber(m)
  if m <= 2 then y, m = y - 1, m + 12 end -- a year that begins in March has its leap day at its end
  local days = 365 * y + math.floor(y / 4) - math.floor(y / 100) + math.floor(y / 400) + math.floor((153 * (m - 3) + 2) / 5) + d
  local ms = tonumber(string.sub((string.match(rest, '^%.(%d+)') or '') .. '000', 1, 3))
  return (days - 719469) * 86400000 + h * 3600000 + min * 60000 + s * 1000 + ms
end
local function read(...)
  local told = redis.pcall(...)
  if type(told) ~= 'table' or not told.err then return told end
  return not string.find(tostring(told.err), 'WRONGTYPE', 1, true) and redis.call(...) or nil
end
local call = redis.call
local function tolerant(look, ...) -- what stands under a key of another type reads as nil
  local is_told, told = pcall(look, ...)
  if is_told then return told end
  if string.find(tostring(type(told) == 'table' and told.err or told), 'WRONGTYPE', 1, true) then call = read end
  told = look(...)
  call = redis.call
  return told
end
local now_s = string.format('%.3f', now_ms / 1000)
local function at_ms(score) -- of a score in seconds; -1 for none, and for what is no instant before the year 5138
  local seconds = tonumber(score)
  return seconds and seconds >= 0 and seconds < 1e11 and math.floor(seconds * 1000 + 0.5) or -1
end
local living = {}
local function alive(worker) -- the hash of a worker that died is gone, or has a death
  if living[worker] == nil then
    local told = redis.pcall('HMGET', worker, 'last_heartbeat', 'death')
    living[worker] = told[1] and not told[2] or false
  end
  return living[worker]
end
local commands = {'ZCARD', 'ZCARD', 'ZCARD', 'LLEN', 'ZCARD', 'LLEN', 'ZCARD', 'ZCARD', 'ZCARD'}
local likeliest = {4, 8, 7, 5, 1, 9, 2, 6, 3}
local function tally(places, registered) -- a count per place, then oldest_ms due_ms overdue deadline_ms expired workers
  local row, left = {0, 0, 0, 0, 0, 0, 0, 0, 0, -1, -1, 0, -1, 0, 0}, redis.call('EXISTS', unpack(places))
  for _, at in ipairs(likeliest) do
    if left == 0 then break end
    row[at] = call(commands[at], places[at]) or 0
    if row[at] > 0 then left = left - 1 end
  end
  if row[4] > 0 then
    local since = redis.pcall('HGET', prefix .. ':job:' .. redis.call('LINDEX', places[4], 0), 'enqueued_at')
    since = type(since) == 'string' and instant(since)
    row[10] = since and math.max(0, now_ms - since) or -1
  end
  for _, timed in ipairs({{1, 11}, {5, 13}}) do
    local place, at = timed[1], timed[2]
    if row[place] > 0 then
      row[at] = at_ms(redis.call('ZRANGE', places[place], 0, 0, 'WITHSCORES')[2])
      row[at + 1] = redis.call('ZCOUNT', places[place], '-inf', now_s)
    end
  end
  local found = call('SSCAN', registered, 0, 'COUNT', 200)
  for _, worker in ipairs(found and found[2] or {}) do
    if alive(worker) then row[15] = row[15] + 1 end
  end
  if not found then
    row[15] = -1
  elseif found[1] ~= '0' then
    row[15] = redis.call('SCARD', registered)
  end
  return row
end
-- end
local rows = {}
for at = 2, #KEYS, 10 do
  rows[#rows + 1] = tolerant(tally, {unpack(KEYS, at, at + 8)}, KEYS[at + 9])
end
return {'counted', now_ms, redis.call('EXISTS', suspended), rows}
