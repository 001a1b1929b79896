-- Extend leases: move their deadline, because the worker is still running the job.
--
-- The token is the entry, which changes, so the reply has the new token. The entry of a single job is searched for
-- among 100 000 at each end, those of many jobs among at least 2500.
--
-- moves    in_progress expired -> in_progress
-- KEYS     entries
-- ARGV     now_ms?    int  a test's clock; the server's when empty
--          timeout_s  str  seconds after which a lease expires
--          ttr_ms?    int  duration from now, in whole seconds; the timeout when empty
--          each (id bytes, token bytes)
-- returns each  extended  (token bytes, deadline_ms int)  extended; use this token from now on
--               stale     this lease is over; the job waits again, or another worker holds it
--               gone      no such job
-- include: keys, server_time
local timeout_s, ttr_ms = tonumber(ARGV[2]), tonumber(ARGV[3])
local length = redis.call('LLEN', entries)
-- include: batch_size
if not timeout_s or string.find(ARGV[1] .. ARGV[3], '%D') or #ARGV[1] > 13 or #ARGV[3] > 13 or ttr_ms == 0 then
  return redis.error_reply('ERR ttr_ms and now_ms are whole numbers, ttr_ms at least 1; nothing was changed')
end
local stamp = math.floor(now_ms / 1000) + (ttr_ms and math.ceil(ttr_ms / 1000) or timeout_s) - timeout_s
stamp = math.max(1, stamp)
-- include: find_lease
local outcomes, new = {}, {}
for at = 4, #ARGV, 2 do
  local token = ARGV[at + 1]
  local id, _, index = find_lease(ARGV[at], token)
  if index then
    local entry = id .. '|' .. string.format('%.0f', stamp)
    outcomes[#outcomes + 1], new[#new + 1] = {'extended', entry, (stamp + timeout_s + 1) * 1000}, {index, entry}
  else
    outcomes[#outcomes + 1] = entries_of(id) > 0 and 'stale' or 'gone'
  end
end
if #new == 0 then return outcomes end

redis.call('LTRIM', entries, 0, -1) -- removes nothing, but lets the drain continue over maxmemory
for _, job in ipairs(new) do redis.call('LSET', entries, job[1], job[2]) end
return outcomes
