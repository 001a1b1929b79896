-- Reschedule queued jobs to another due time. A time in the past makes them due.
--
-- With unit ms or s, the time is written in that unit. This fixes a topic that has scores in both units.
--
-- moves    queued due -> queued | due
-- KEYS     queued reserved
-- ARGV     now_ms?    int  a test's clock; the server's when empty
--          due_ms?    int  the new due time
--          delay_ms?  int  the new due time, from now
--          unit       str  ms, s or auto
--          each       (id bytes)
-- returns each  moved        rescheduled
--               wrong_place  a worker holds it
--               gone         no such job
-- include: keys, integers, key_types, server_time
local due_ms, unit, MS = tonumber(ARGV[2]) or now_ms + (tonumber(ARGV[3]) or 0), ARGV[4], '100000000000'
if #ARGV < 5 or #ARGV > 1004 or #ARGV[1] > 13 or string.find(ARGV[1], '%D') or due_ms < 0 or not ({ms = 1, s = 1, auto = 1})[unit] then
  return redis.error_reply('ERR a batch has 1 to 1000 ids, now_ms and due_ms are whole numbers, the unit is ms, s or auto; nothing was changed')
end
-- include: is_ms
local in_s = due_ms <= now_ms and math.floor(due_ms / 1000) or math.ceil(due_ms / 1000)
local outcomes, dues = {}, {}
for at = 5, #ARGV do
  local id = ARGV[at]
  local due = tonumber(redis.call('ZSCORE', queued, id) or nil)
  if due then
    outcomes[#outcomes + 1] = 'moved'
    dues[#dues + 1], dues[#dues + 2] = string.format('%.0f', is_ms(due) and due_ms or in_s), id
  else
    outcomes[#outcomes + 1] = redis.call('ZSCORE', reserved, id) and 'wrong_place' or 'gone'
  end
end
-- include: write_dues
