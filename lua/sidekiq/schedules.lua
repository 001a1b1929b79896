-- List the recurring jobs of sidekiq-cron and sidekiq-scheduler, of all queues, as these programs stored them.
--
-- Rows of sidekiq-cron (`cron_jobs` of version 1, `cron_default` of version 2 with the namespace `default`) have the
-- fields of each job's hash; `is_there` is false if the hash is missing. Rows of sidekiq-scheduler have its JSON in
-- `definition`, and its times. `alive` is the number of live processes, which enqueue these jobs. At most 500 of each are
-- listed, with up to 64 kB in `definition`.
--
-- derived  <prefix><identity>
-- KEYS     cron_jobs     set   keys of jobs; sidekiq-cron 1
--          cron_default  set   keys of jobs; sidekiq-cron 2
--          schedules     hash  JSON by name; sidekiq-scheduler
--          next_times    hash  time by name
--          last_times    hash  time by name
--          states        hash  JSON by name
--          processes
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          prefix   str  the prefix of all keys: the namespace and a colon, or nothing
-- returns  listed  (now_ms int, alive int)
--                  rows (kind str, name bytes, is_there bool, definition bytes, class str, pattern str, status str, last str, next str, args bytes)
--                  a row per `cron`, and one per `scheduler`
-- include: keys, clock, prefix, processes, is_alive
local alive, rows = 0, {}
each_process(function(_, info, age_ms)
  if info and is_alive(age_ms) then alive = alive + 1 end
end)
local function short(value, most) return type(value) == 'string' and #value <= most and value or '' end
for _, set in ipairs({cron_jobs, cron_default}) do
  local page = redis.pcall('SSCAN', set, 0, 'COUNT', 500)
  for at = 1, page.err and 0 or math.min(500, #page[2]) do
    local key = page[2][at]
    local fields = redis.pcall('HMGET', key, 'name', 'message', 'klass', 'cron', 'status', 'last_enqueue_time', 'args')
    if fields.err then fields = {} end
    rows[#rows + 1] = {
      'cron', short(fields[1], 1000) ~= '' and fields[1] or key, fields[3] and 1 or 0, short(fields[2], 65536), short(fields[3], 1000),
      short(fields[4], 1000), short(fields[5], 100), short(fields[6], 100), '', short(fields[7], 65536),
    }
  end
end
local page = redis.pcall('HSCAN', schedules, 0, 'COUNT', 500)
for at = 1, page.err and 0 or math.min(1000, #page[2]), 2 do
  local name = page[2][at]
  rows[#rows + 1] = {
    'scheduler', name, 1, short(page[2][at + 1], 65536), '', '', short(redis.pcall('HGET', states, name), 1000),
    short(redis.pcall('HGET', last_times, name), 100), short(redis.pcall('HGET', next_times, name), 100), '',
  }
end
return {'listed', now_ms, alive, rows}
