-- Enqueue new jobs, now, later or at the head; an id that is taken is left as it is.
--
-- A job that shall run later waits for a scheduler (`rq worker --with-scheduler`), in whole seconds.
--
-- moves    -> queued | scheduled
-- writes   queues
-- derived  <prefix>:job:<id>
-- KEYS     queued     list  ids, the next one first
--          scheduled  zset  id by due (s)
--          queues     set   keys of all queues
-- ARGV     prefix     str   before all keys: rq
--          now_ms?    int   a test's clock; the server's when empty
--          each       (id bytes, body bytes, description? bytes, delay_ms? int, due_ms? int, at_front? bool, ttr_ms? int,
--                      max_attempts? int, retry_intervals? str, keep_ms? int, failure_ttl_ms? int, ttl_ms? int, meta? bytes)
-- returns each  moved   enqueued
--               exists  a job of that id is there; nothing was changed
local queued, scheduled, queues = KEYS[1], KEYS[2], KEYS[3]
local scalars, columns = 2, 13
redis.call('LLEN', queued)
redis.call('ZCARD', scheduled)
redis.call('SCARD', queues)
-- block: rq_batch, rq_clock, rq_written
local rows, prefix = (#ARGV - scalars) / columns, ARGV[1]
if rows < 1 or rows > 1000 or rows ~= math.floor(rows) or prefix == '' then
  return redis.error_reply('ERR it takes the prefix, and 1 to 1000 rows, each with all of its columns; nothing was changed')
end
if #ARGV[2] > 13 or string.find(ARGV[2], '%D') then
  return redis.error_reply('ERR now_ms is a whole number; nothing was changed')
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[2]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local function written(ms) -- 2026-11-22T04:43:55.938000Z, by the calendar that begins in March
  local days, rest = math.floor(ms / 86400000) + 719468, ms % 86400000
  local era = math.floor(days / 146097)
  local day = days - era * 146097
  local year = math.floor((day - math.floor(day / 1460) + math.floor(day / 36524) - math.floor(day / 146096)) / 365)
  day = day - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  local month = math.floor((5 * day + 2) / 153)
  day = day - math.floor((153 * month + 2) / 5) + 1
  year, month = year + era * 400 + (month > 9 and 1 or 0), month > 9 and month - 9 or month + 3
  local hour, minute, second = math.floor(rest / 3600000), math.floor(rest / 60000) % 60, math.floor(rest / 1000) % 60
  return string.format('%04d-%02d-%02dT%02d:%02d:%02d.%03d000Z', year, month, day, hour, minute, second, rest % 1000)
end
-- end
local origin = string.sub(queued, #prefix + 8)
if origin == '' or string.sub(queued, 1, #prefix + 7) ~= prefix .. ':queue:' then
  return redis.error_reply('ERR the key of a queue is ' .. prefix .. ':queue:NAME; nothing was changed')
end
local LONGEST, names = 3162240000000, {[3] = 'delay_ms', [4] = 'due_ms', [6] = 'ttr_ms', [7] = 'max_attempts', [9] = 'keep_ms',
  [10] = 'failure_ttl_ms', [11] = 'ttl_ms'}
local function fault(at) -- what is wrong with the row that begins there
  local id = ARGV[at]
  if #id > 200 or not string.find(id, '^[%w_-]+$') then return 'an id has 1 to 200 letters, digits, _ and -' end
  if ARGV[at + 1] == '' then return 'a body is not empty' end
  for column, name in pairs(names) do
    local text = ARGV[at + column]
    local number = #text < 14 and string.match(text, '^%-?%d+$') and tonumber(text)
    local least = (column == 6 or column == 9 or column == 10) and -1 or column == 7 and 1 or 0
    if text ~= '' and not (number and number >= least and number <= LONGEST) then
      return name .. ' is a whole number from ' .. least .. ' on'
    end
  end
  if ARGV[at + 8] ~= '' and not string.find(ARGV[at + 8], '^%[[%d, ]*%]$') then return 'retry_intervals are seconds: [10, 60]' end
end
for at = 3, #ARGV, columns do
  local wrong = fault(at)
  if wrong then return redis.error_reply('ERR job ' .. (at + 10) / columns .. ' of the batch: ' .. wrong .. '; nothing was changed') end
end
local function seconds(ms) -- rounded up; -1 means for ever
  return ms == '-1' and ms or string.format('%.0f', math.ceil(tonumber(ms) / 1000))
end

local words, now = {}, written(now_ms)
for at = 3, #ARGV, columns do
  local id, key = ARGV[at], prefix .. ':job:' .. ARGV[at]
  if redis.call('EXISTS', key) == 1 then
    words[#words + 1] = 'exists'
  else
    local delay_ms = tonumber(ARGV[at + 3])
    local due_ms = delay_ms and now_ms + delay_ms or tonumber(ARGV[at + 4]) or now_ms
    local is_later = due_ms > now_ms
    local hash = {
      'data', ARGV[at + 1], 'origin', origin, 'status', is_later and 'scheduled' or 'queued', 'created_at', now,
      'description', ARGV[at + 2], 'timeout', ARGV[at + 6] == '' and '180' or seconds(ARGV[at + 6]), 'started_at', '', 'ended_at', '',
    }
    local function also(name, value)
      if value ~= '' then hash[#hash + 1], hash[#hash + 2] = name, value end
    end
    also('enqueued_at', is_later and '' or now)
    also('retries_left', ARGV[at + 7] == '' and '' or string.format('%.0f', tonumber(ARGV[at + 7]) - 1))
    also('retry_intervals', ARGV[at + 8])
    for column, name in pairs({[9] = 'result_ttl', [10] = 'failure_ttl', [11] = 'ttl'}) do
      also(name, ARGV[at + column] == '' and '' or seconds(ARGV[at + column]))
    end
    also('meta', ARGV[at + 12])
    also('enqueue_at_front', ARGV[at + 5])
    redis.call('HSET', key, unpack(hash))
    if tonumber(ARGV[at + 11]) then redis.call('EXPIRE', key, math.max(1, tonumber(seconds(ARGV[at + 11])))) end
    if is_later then
      redis.call('ZADD', scheduled, string.format('%.0f', math.ceil(due_ms / 1000)), id)
    else
      redis.call(ARGV[at + 5] == '1' and 'LPUSH' or 'RPUSH', queued, id)
    end
    words[#words + 1] = 'moved'
  end
end
redis.call('SADD', queues, queued)
return words
