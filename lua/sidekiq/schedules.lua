-- What sidekiq-cron and sidekiq-scheduler enqueue again and again, of all queues, as they wrote it.
--
-- Rows of sidekiq-cron (`cron_jobs` of 1, `cron_default` of 2, the namespace `default`) have the fields of each job's hash; where it is
-- gone `is_there` is false. Rows of sidekiq-scheduler have its JSON in `told`, and its times. `alive` are the processes that beat: they
-- see to all of it. At most 500 of each, `told` up to 64 kB.
--
-- derived  <prefix><identity>
-- KEYS     cron_jobs     set   keys of jobs; sidekiq-cron 1
--          cron_default  set   keys of jobs; sidekiq-cron 2
--          schedules     hash  JSON by name; sidekiq-scheduler
--          next_times    hash  time by name
--          last_times    hash  time by name
--          states        hash  JSON by name
--          processes     set   identities of processes
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          prefix   str  before all keys: the namespace and a colon, or nothing
-- returns  listed  (now_ms int, alive int)
--                  rows (kind str, name bytes, is_there bool, told bytes, class str, pattern str, status str, last str, next str, args bytes)
--                  a row per `cron`, and one per `scheduler`
local cron_jobs, cron_default, schedules, next_times, last_times, states, processes =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
-- block: clock, sidekiq_prefix, sidekiq_instant, sidekiq_processes
if #ARGV < 1 or #ARGV[1] > 15 or string.find(ARGV[1], '%D') then
  return redis.error_reply('ERR now_ms is a whole number; nothing was changed')
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
if #ARGV < 2 then return redis.error_reply('ERR it takes a prefix, which may be empty; nothing was changed') end
local prefix = ARGV[2]
local function at_ms(value) -- -1 for what is no instant
  local at = tonumber(value)
  if not at or at ~= at or at < 0 or at > 9e15 then return -1 end
  return math.floor((at < 1e11 and at * 1000 or at) + 0.5)
end
local function each_process(look) -- look(identity, info or nil, age of the beat in ms or -1)
  local found = redis.pcall('SSCAN', processes, 0, 'COUNT', 300)
  for at = 1, found.err and 0 or math.min(300, #found[2]) do
    local identity = found[2][at]
    local told = redis.pcall('HMGET', prefix .. identity, 'info', 'beat')
    local beat_ms = at_ms(told[2])
    look(identity, told[1] or nil, beat_ms >= 0 and math.max(0, now_ms - beat_ms) or -1)
  end
  return found.err ~= nil or (tostring(found[1]) == '0' and #found[2] <= 300)
end
-- end
local alive, rows = 0, {}
each_process(function(_, info, age_ms)
  if info and age_ms >= 0 and age_ms <= 20000 then alive = alive + 1 end
end)
local function short(value, most) return type(value) == 'string' and #value <= most and value or '' end
for _, set in ipairs({cron_jobs, cron_default}) do
  local found = redis.pcall('SSCAN', set, 0, 'COUNT', 500)
  for at = 1, found.err and 0 or math.min(500, #found[2]) do
    local key = found[2][at]
    local told = redis.pcall('HMGET', key, 'name', 'message', 'klass', 'cron', 'status', 'last_enqueue_time', 'args')
    if told.err then told = {} end
    rows[#rows + 1] = {
      'cron', short(told[1], 1000) ~= '' and told[1] or key, told[3] and 1 or 0, short(told[2], 65536), short(told[3], 1000),
      short(told[4], 1000), short(told[5], 100), short(told[6], 100), '', short(told[7], 65536),
    }
  end
end
local found = redis.pcall('HSCAN', schedules, 0, 'COUNT', 500)
for at = 1, found.err and 0 or math.min(1000, #found[2]), 2 do
  local name = found[2][at]
  rows[#rows + 1] = {
    'scheduler', name, 1, short(found[2][at + 1], 65536), '', '', short(redis.pcall('HGET', states, name), 1000),
    short(redis.pcall('HGET', last_times, name), 100), short(redis.pcall('HGET', next_times, name), 100), '',
  }
end
return {'listed', now_ms, alive, rows}
