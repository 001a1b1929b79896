-- What each of many queues holds at one instant: `counts.lua` for all of them in one call.
--
-- derived  <prefix>:<queue>:<id>
--          <prefix>:<queue>:<id>:lock
-- KEYS     each (delayed zset, waiting_children zset, prioritized zset, wait list, paused list, active list, completed zset,
--               failed zset, meta hash, id string, metrics_completed hash, metrics_failed hash)  the keys of a queue
-- ARGV     now_ms?  int  a test's clock; the server's when empty
-- returns  counted  (now_ms int)
--                   rows (delayed int, waiting_children int, prioritized int, wait int, paused int, active int, completed int,
--                   failed int, oldest_ms int, due_ms int, overdue int, deadline_ms int, expired int, is_paused bool, concurrency int, limit_max int, limit_ms int,
--                   added int, succeeded int, died int)
--                   a row per queue, in the order of the keys

-- block: clock
if #ARGV < 1 or #ARGV[1] > 15 or string.find(ARGV[1], '%D') then
  return redis.error_reply('ERR now_ms is a whole number; nothing was changed')
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
-- end
-- block: read, tolerant, bullmq_tally
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
local function whole(value) -- a count or a time of a hash; 0 for what is none
  return type(value) == 'string' and #value < 16 and string.find(value, '^%d+$') and tonumber(value) or 0
end
local function waits_since(job) -- it came, was due, or ran before: the last of them
  local length = redis.pcall('HSTRLEN', job, 'opts')
  if type(length) ~= 'number' then return nil end
  local told = redis.call('HMGET', job, 'timestamp', 'processedOn')
  local is_read, opts = pcall(cjson.decode, length <= 4096 and redis.call('HGET', job, 'opts') or '')
  local delay = is_read and type(opts) == 'table' and tonumber(opts.delay) or 0
  return told[1] and math.max(whole(told[1]) + math.max(0, math.min(delay, 1e13)), whole(told[2]))
end
local commands = {'ZCARD', 'ZCARD', 'ZCARD', 'LLEN', 'LLEN', 'LLEN', 'ZCARD', 'ZCARD'}
local likeliest = {7, 8, 4, 6, 1, 3, 2, 5}
local function tally(places, beside) -- a count per place, then oldest_ms due_ms overdue deadline_ms expired and what `meta` says
  local row, left = {0, 0, 0, 0, 0, 0, 0, 0, -1, -1, 0, -1, 0, 0, 0, 0, 0, 0, -1, -1}, redis.call('EXISTS', unpack(places))
  local meta_key, counter, good, bad = unpack(beside)
  for _, at in ipairs(likeliest) do
    if left == 0 then break end
    row[at] = call(commands[at], places[at]) or 0
    if row[at] > 0 then left = left - 1 end
  end
  local p = string.sub(meta_key, 1, -5)
  local oldest = row[4] > 0 and redis.call('LINDEX', places[4], -1) or row[5] > 0 and redis.call('LINDEX', places[5], -1)
    or row[3] > 0 and redis.call('ZRANGE', places[3], 0, 0)[1]
  local since = oldest and waits_since(p .. oldest)
  if since then row[9] = math.max(0, now_ms - since) end
  if row[1] > 0 then
    row[10] = math.floor(tonumber(redis.call('ZRANGE', places[1], 0, 0, 'WITHSCORES')[2]) / 4096)
    if row[10] < 0 or row[10] > 1e13 then row[10] = -1 end
    row[11] = redis.call('ZCOUNT', places[1], '-inf', string.format('%.0f', now_ms * 4096 + 4095))
  end
  if row[6] > 0 then -- the oldest run first: a lock is all that tells that somebody works on it
    for _, run in ipairs(redis.call('LRANGE', places[6], -20, -1)) do
      local left_ms = redis.call('PTTL', p .. run .. ':lock')
      if left_ms == -2 then row[13] = row[13] + 1 end
      local until_ms = now_ms + math.max(0, left_ms)
      if row[12] < 0 or until_ms < row[12] then row[12] = until_ms end
    end
  end
  local told = call('HMGET', meta_key, 'paused', 'concurrency', 'max', 'duration') or {}
  row[14], row[15], row[16], row[17] = told[1] and 1 or 0, whole(told[2]), whole(told[3]), whole(told[4])
  local added = call('GET', counter)
  row[18] = added == nil and -1 or whole(added)
  if row[18] ~= 0 and redis.call('EXISTS', good, bad) > 0 then
    local succeeded, died = call('HGET', good, 'count'), call('HGET', bad, 'count')
    if succeeded ~= nil and died ~= nil then row[19], row[20] = whole(succeeded), whole(died) end
  end
  return row
end
-- end
local rows = {}
for at = 1, #KEYS, 12 do
  rows[#rows + 1] = tolerant(tally, {unpack(KEYS, at, at + 7)}, {unpack(KEYS, at + 8, at + 11)})
end
return {'counted', now_ms, rows}
