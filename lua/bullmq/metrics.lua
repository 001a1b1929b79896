-- Return the history per minute of a queue, from the metrics that its workers keep (`metrics: {maxDataPoints: …}`).
--
-- BullMQ stores how many jobs ended in each minute, newest first, without the minute of the last job: that is `count` minus `prevCount`
-- of the minute of `prevTS`. `fields` of a row is `completed number failed number`; the numbers are cumulative. The first row has
-- minute 0 and the numbers of now. Each further row has the numbers at the beginning of a minute in which jobs ended, newest first.
-- Before `begin_ms` nothing is known; it is empty if no worker keeps metrics.
--
-- derived  <prefix>:<queue>:metrics:completed:data
--          <prefix>:<queue>:metrics:failed:data
-- KEYS     metrics_completed metrics_failed
-- ARGV     limit  int  how many minutes at most, 0 to 1440
-- returns  metrics  (begin_ms? int)  rows (minute_ms int, fields str)
-- include: keys, args, integers
if not limit or limit < 0 or limit > 1440 then return redis.error_reply('ERR limit is 0 to 1440') end
local function whole(value) -- a number in a hash or a list; 0 for another value
  return type(value) == 'string' and #value < 16 and string.find(value, '^%d+$') and tonumber(value) or 0
end
local now_minute = math.floor(redis.call('TIME')[1] / 60)
local function read_series(key) -- nil if no job has ended so
  local values = redis.call('HMGET', key, 'count', 'prevTS', 'prevCount')
  local last = math.floor(whole(values[2]) / 60000)
  if last == 0 or last > now_minute + 1440 then return nil end
  local series = {count = whole(values[1]), ended = {}}
  local before, minute = whole(values[3]), last
  series.ended[minute] = math.max(0, series.count - before)
  local points = redis.call('LRANGE', key .. ':data', 0, limit - 1)
  for _, point in ipairs(points) do
    minute = minute - 1
    series.ended[minute], before = whole(point), before - whole(point)
  end
  series.begin = minute
  series.is_whole = before <= 0 -- the list has not been trimmed: earlier minutes had no such job
  return series
end
local completed, failed = read_series(metrics_completed), read_series(metrics_failed)
if not completed and not failed then return {'metrics', '', {}} end
local begin = math.min(completed and completed.begin or math.huge, failed and failed.begin or math.huge)
for _, one in pairs({completed or false, failed or false}) do
  if one and not one.is_whole then begin = math.max(begin, one.begin) end
end
local counts = {completed and completed.count or 0, failed and failed.count or 0}
local rows = {{0, 'completed ' .. counts[1] .. ' failed ' .. counts[2]}}
for minute = now_minute, math.max(begin, now_minute - limit), -1 do
  local good, bad = completed and completed.ended[minute] or 0, failed and failed.ended[minute] or 0
  if good + bad > 0 then
    counts = {counts[1] - good, counts[2] - bad}
    rows[#rows + 1] = {minute * 60000, 'completed ' .. counts[1] .. ' failed ' .. counts[2]}
  end
end
return {'metrics', string.format('%.0f', begin * 60000), rows}
