-- Cancel running jobs that iterate: each ends before its next step, as done, within 5 s.
--
-- Sidekiq can do this since version 7.3, for jobs whose class includes `Sidekiq::IterableJob`. Such a job stores its
-- progress every 5 s, and this script recognises it by that.
--
-- writes   states
-- derived  <prefix><identity>
--          <prefix><identity>:work
--          <prefix><identity>:workers
--          <prefix>it-<jid>
-- KEYS     processes
-- ARGV     prefix?  str  the prefix of all keys: the namespace and a colon
--          now_ms?  int  a test's clock; the server's when empty
--          each     (jid bytes, member bytes, token str, worker str)
-- returns each  asked         asked to cancel: it ends before its next step
--               already       it was cancelled before
--               not_iterable  it has stored no progress: its class does not iterate, or it started less than 5 s ago
--               gone          no process runs it any more
-- include: keys, args, key_types(processes)
if #ARGV < 6 or #ARGV > 4002 or #ARGV % 4 ~= 2 then
  return redis.error_reply('ERR it takes the prefix, and 1 to 1000 rows of jid, member, token and worker; nothing was changed')
end
-- include: clock_argv2, held
local outcomes, asked = {}, {}
for at = 3, #ARGV, 4 do
  local jid, member, token, worker = unpack(ARGV, at, at + 3)
  local is_held = false
  local _, jobs = held(worker)
  for _, job in ipairs(jobs) do is_held = is_held or worker .. ' ' .. job[1] == token and job[3] == member end
  local key = prefix .. 'it-' .. jid
  local size = redis.pcall('HLEN', key)
  if not is_held or (silent_ms(worker) or math.huge) > SILENT_MS then
    outcomes[#outcomes + 1] = 'gone'
  elseif type(size) ~= 'number' or size == 0 then
    outcomes[#outcomes + 1] = 'not_iterable'
  elseif redis.call('HEXISTS', key, 'cancelled') == 1 then
    outcomes[#outcomes + 1] = 'already'
  else
    outcomes[#outcomes + 1], asked[#asked + 1] = 'asked', key
  end
end
if #asked == 0 then return outcomes end

redis.call('SREM', processes, '') -- removes nothing, but lets the script continue over maxmemory
for _, key in ipairs(asked) do
  redis.call('HSETNX', key, 'cancelled', string.format('%.0f', math.floor(now_ms / 1000)))
  if redis.call('TTL', key) == -1 then redis.call('EXPIRE', key, 2592000) end -- sidekiq/job/iterable.rb 8
end
return outcomes
