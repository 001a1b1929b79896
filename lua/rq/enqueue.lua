-- Enqueue new jobs, now, later or at the head. If the id exists, that job stays unchanged.
--
-- A job with a due time waits for a scheduler (`rq worker --with-scheduler`), in whole seconds.
--
-- moves    -> queued | scheduled
-- writes   queues
-- derived  <prefix>:job:<id>
-- KEYS     queued scheduled queues
-- ARGV     prefix     str   prefix of all keys: rq
--          now_ms?    int   a test's clock; the server's when empty
--          each       (id bytes, body bytes, description? bytes, delay_ms? int, due_ms? int, at_front? bool, ttr_ms? int,
--                      max_attempts? int, retry_intervals? str, keep_ms? int, failure_ttl_ms? int, ttl_ms? int, meta? bytes)
-- returns each  moved   enqueued
--               exists  a job with this id exists; nothing was changed
-- include: keys, columns, key_types, batch, clock_argv2, format_time
local origin = string.sub(queued, #prefix + 8)
if origin == '' or string.sub(queued, 1, #prefix + 7) ~= prefix .. ':queue:' then
  return redis.error_reply('ERR the key of a queue is ' .. prefix .. ':queue:NAME; nothing was changed')
end
local LONGEST, names = 3162240000000, {[3] = 'delay_ms', [4] = 'due_ms', [6] = 'ttr_ms', [7] = 'max_attempts', [9] = 'keep_ms',
  [10] = 'failure_ttl_ms', [11] = 'ttl_ms'}
local function find_fault(at) -- a sentence about the row that begins at this argument; nil if the row is valid
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
  local fault = find_fault(at)
  if fault then return redis.error_reply('ERR job ' .. (at + 10) / columns .. ' of the batch: ' .. fault .. '; nothing was changed') end
end
local function seconds(ms) -- rounded up; -1 means no expiry
  return ms == '-1' and ms or string.format('%.0f', math.ceil(tonumber(ms) / 1000))
end

local replies, now = {}, format_time(now_ms)
for at = 3, #ARGV, columns do
  local id, key = ARGV[at], prefix .. ':job:' .. ARGV[at]
  if redis.call('EXISTS', key) == 1 then
    replies[#replies + 1] = 'exists'
  else
    local delay_ms = tonumber(ARGV[at + 3])
    local due_ms = delay_ms and now_ms + delay_ms or tonumber(ARGV[at + 4]) or now_ms
    local is_later = due_ms > now_ms
    local hash = {
      'data', ARGV[at + 1], 'origin', origin, 'status', is_later and 'scheduled' or 'queued', 'created_at', now,
      'description', ARGV[at + 2], 'timeout', ARGV[at + 6] == '' and '180' or seconds(ARGV[at + 6]), 'started_at', '', 'ended_at', '',
    }
    local function add_field(name, value)
      if value ~= '' then hash[#hash + 1], hash[#hash + 2] = name, value end
    end
    add_field('enqueued_at', is_later and '' or now)
    add_field('retries_left', ARGV[at + 7] == '' and '' or string.format('%.0f', tonumber(ARGV[at + 7]) - 1))
    add_field('retry_intervals', ARGV[at + 8])
    for column, name in pairs({[9] = 'result_ttl', [10] = 'failure_ttl', [11] = 'ttl'}) do
      add_field(name, ARGV[at + column] == '' and '' or seconds(ARGV[at + column]))
    end
    add_field('meta', ARGV[at + 12])
    add_field('enqueue_at_front', ARGV[at + 5])
    redis.call('HSET', key, unpack(hash))
    if tonumber(ARGV[at + 11]) then redis.call('EXPIRE', key, math.max(1, tonumber(seconds(ARGV[at + 11])))) end
    if is_later then
      redis.call('ZADD', scheduled, string.format('%.0f', math.ceil(due_ms / 1000)), id)
    else
      redis.call(ARGV[at + 5] == '1' and 'LPUSH' or 'RPUSH', queued, id)
    end
    replies[#replies + 1] = 'moved'
  end
end
redis.call('SADD', queues, queued)
return replies
