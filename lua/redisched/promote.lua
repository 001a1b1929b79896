-- Promote queued jobs: make them due now.
--
-- moves    queued -> due
-- KEYS     queued reserved
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          unit     str  ms, s or auto
--          each     (id bytes)
-- returns each  moved        promoted
--               wrong_place  it is due already, or a worker holds it
--               gone         no such job
-- include: keys, key_types, server_time
local unit, MS = ARGV[2], '100000000000'
if #ARGV < 3 or #ARGV > 1002 or #ARGV[1] > 13 or string.find(ARGV[1], '%D') or not ({ms = 1, s = 1, auto = 1})[unit] then
  return redis.error_reply('ERR a batch has 1 to 1000 ids, now_ms is a whole number, the unit ms, s or auto; nothing was changed')
end
-- include: is_ms
local outcomes, dues, seen = {}, {}, {}
for at = 3, #ARGV do
  local id = ARGV[at]
  local due = tonumber(redis.call('ZSCORE', queued, id) or nil)
  if due and not seen[id] and (due < 1e11 and due * 1000 or due) > now_ms then
    outcomes[#outcomes + 1], seen[id] = 'moved', true
    dues[#dues + 1], dues[#dues + 2] = string.format('%.0f', is_ms(due) and now_ms or math.floor(now_ms / 1000)), id
  else
    outcomes[#outcomes + 1] = (due or redis.call('ZSCORE', reserved, id)) and 'wrong_place' or 'gone'
  end
end
-- include: write_dues
