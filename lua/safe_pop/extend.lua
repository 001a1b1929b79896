-- Extend leases: move their end, since the worker is still at work.
--
-- The token is the entry, so there is a new one: it comes with the answer. An entry is looked for among 100 000 at each end for a
-- single job, at least 2500 for many.
--
-- moves    in_progress expired -> in_progress
-- KEYS     entries (in_progress expired)  list  id, or id|unix seconds once handed out
-- ARGV     now_ms?    int  a test's clock; the server's when empty
--          timeout_s  str  seconds after which an entry that was handed out is late
--          ttr_ms?    int  how long from now, in whole seconds; the timeout when empty
--          each (id bytes, token bytes)
-- returns each  extended  (token bytes, deadline_ms int)  extended; this is the token from now on
--               stale     this lease is over; the job waits again, or somebody else holds it
--               gone      no such job
local entries = KEYS[1]
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local timeout_s, ttr_ms = tonumber(ARGV[2]), tonumber(ARGV[3])
local length = redis.call('LLEN', entries)
if #ARGV < 5 or #ARGV > 2003 or #ARGV % 2 == 0 then
  return redis.error_reply('ERR a batch has 1 to 1000 rows of id and token; nothing was changed')
end
if not timeout_s or string.find(ARGV[1] .. ARGV[3], '%D') or #ARGV[1] > 13 or #ARGV[3] > 13 or ttr_ms == 0 then
  return redis.error_reply('ERR ttr_ms and now_ms are whole numbers, ttr_ms at least 1; nothing was changed')
end
local stamp = math.floor(now_ms / 1000) + (ttr_ms and math.ceil(ttr_ms / 1000) or timeout_s) - timeout_s
stamp = math.max(1, stamp)
-- block: search
local reach, indexes, standing = math.floor(200000 / #ARGV), nil, nil
local function look() -- at both ends: where entries are, and how often an id stands there
  indexes, standing = {}, {}
  for _, from in ipairs({0, math.max(2500, length - 2500)}) do
    for i, entry in ipairs(redis.call('LRANGE', entries, from, from == 0 and 2499 or -1)) do
      local own = string.sub(entry, 1, (string.find(entry, '|', 1, true) or 0) - 1)
      indexes[entry], standing[own] = from + i - 1, (standing[own] or 0) + 1
    end
  end
end
local function index_of(entry, rank) -- for many, one look is cheaper than a search each
  if #ARGV > 40 and not indexes then look() end
  return rank == 1 and indexes and indexes[entry] or redis.call('LPOS', entries, entry, 'RANK', rank, 'MAXLEN', reach)
    or length > reach and redis.call('LPOS', entries, entry, 'RANK', -rank, 'MAXLEN', reach)
end
local function stands(id)
  if not standing then look() end
  return standing[id] or 0
end
-- end
local words, new = {}, {}
for at = 4, #ARGV, 2 do
  local id, token = ARGV[at], ARGV[at + 1]
  local bar = string.find(token, '|', 1, true)
  local time = bar and bar > 1 and string.match(token, '^%d+$', bar + 1)
  local is_lease = time and #time < 12
  if is_lease then id = string.sub(token, 1, bar - 1) end
  local index = is_lease and index_of(token, 1)
  if index then
    local entry = id .. '|' .. string.format('%.0f', stamp)
    words[#words + 1], new[#new + 1] = {'extended', entry, (stamp + timeout_s + 1) * 1000}, {index, entry}
  else
    words[#words + 1] = stands(id) > 0 and 'stale' or 'gone'
  end
end
if #new == 0 then return words end

redis.call('LTRIM', entries, 0, -1) -- frees nothing: a drain may go on over maxmemory
for _, job in ipairs(new) do redis.call('LSET', entries, job[1], job[2]) end
return words
