-- Return how many runs ended and failed on each of the given days, of all queues.
--
-- Sidekiq 6.4 to 8 counts the runs of a day (UTC) in two strings, which it keeps for five years. Days without runs have no strings.
--
-- derived  <prefix>stat:processed:<date>
--          <prefix>stat:failed:<date>
-- KEYS     stat_processed  string  how many runs ended
-- ARGV     prefix  str  the prefix of all keys: the namespace and a colon, or nothing
--          each    (date str)  up to 366 days, such as 2026-11-25
-- returns  counted  rows (date str, processed int, failed int)  only days with runs
local prefix, rows = ARGV[1], {}
if #ARGV < 1 or #ARGV > 367 then return redis.error_reply('ERR it takes a prefix and up to 366 days') end
if KEYS[1] ~= prefix .. 'stat:processed' then return redis.error_reply('ERR the key does not begin with the prefix') end
local function count(kind, date)
  local value = redis.pcall('GET', prefix .. 'stat:' .. kind .. ':' .. date)
  return type(value) == 'string' and #value < 16 and string.find(value, '^%d+$') and tonumber(value) or nil
end
for at = 2, #ARGV do
  if not string.find(ARGV[at], '^%d%d%d%d%-%d%d%-%d%d$') then return redis.error_reply('ERR a day is written as 2026-11-25') end
  local processed, failed = count('processed', ARGV[at]), count('failed', ARGV[at])
  if processed or failed then rows[#rows + 1] = {ARGV[at], processed or 0, failed or 0} end
end
return {'counted', rows}
