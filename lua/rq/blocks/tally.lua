-- Count the jobs of one queue. Most places are empty, so EXISTS first counts the places that are not.
--
-- needs    now_ms call prefix parse_time
-- gives    tally
local now_s = string.format('%.3f', now_ms / 1000)
local function at_ms(score) -- converts a score in seconds; -1 for no score, and for a time after the year 5138
  local seconds = tonumber(score)
  return seconds and seconds >= 0 and seconds < 1e11 and math.floor(seconds * 1000 + 0.5) or -1
end
local living = {}
local function is_alive(worker) -- a dead worker has no hash, or one with a `death`
  if living[worker] == nil then
    local values = redis.pcall('HMGET', worker, 'last_heartbeat', 'death')
    living[worker] = values[1] and not values[2] or false
  end
  return living[worker]
end
local commands = {'ZCARD', 'ZCARD', 'ZCARD', 'LLEN', 'ZCARD', 'LLEN', 'ZCARD', 'ZCARD', 'ZCARD'}
local likeliest = {4, 8, 7, 5, 1, 9, 2, 6, 3}
local function tally(places, registered) -- a count per place, then the columns of `counts`
  local row, left = {0, 0, 0, 0, 0, 0, 0, 0, 0, -1, -1, 0, -1, 0, 0}, redis.call('EXISTS', unpack(places))
  for _, at in ipairs(likeliest) do
    if left == 0 then break end
    row[at] = call(commands[at], places[at]) or 0
    if row[at] > 0 then left = left - 1 end
  end
  if row[4] > 0 then
    local since = redis.pcall('HGET', prefix .. ':job:' .. redis.call('LINDEX', places[4], 0), 'enqueued_at')
    since = type(since) == 'string' and parse_time(since)
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
    if is_alive(worker) then row[15] = row[15] + 1 end
  end
  if not found then
    row[15] = -1
  elseif found[1] ~= '0' then
    row[15] = redis.call('SCARD', registered)
  end
  return row
end
