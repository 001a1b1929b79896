-- Lease jobs to a worker: those that wait, and those whose lease is over.
--
-- Looks at the 1000 entries that would be popped next and passes over those in progress. Where that did not bring enough and more
-- stand behind, they go to the other end as they are, so that the next call sees the rest. A lease is the time at which it would
-- have been late by itself: now + `ttr_ms` - timeout. The new entry is the token: a job whose new entry stands in the list
-- already is passed over. An entry with a time whose id is marked done is dropped with its mark; a mark on one without a time,
-- where none of that id was handed out, is an old one and goes. `next_ms` is the time until the next lease is over.
--
-- moves    ready -> in_progress
--          expired -> | in_progress
-- writes   done
-- derived  <queue>:data:<id>  the body
-- KEYS     entries (ready in_progress expired)  list  id, or id|unix seconds once handed out
--          done       set   ids of finished jobs whose entry still stands
-- ARGV     now_ms?    int   a test's clock; the server's when empty
--          timeout_s  str   seconds after which an entry that was handed out is late
--          limit      int   how many at most, 1 to 1000
--          ttr_ms?    int   how long the lease lasts, in whole seconds; the timeout when empty
-- returns  moved  (now_ms int) rows (id bytes, member bytes, size int, time int, bytes int, body bytes)  leased
--          empty  (next_ms int)  nothing waits
local entries, done = KEYS[1], KEYS[2]
for _, at in ipairs({1, 2, 3, 4}) do
  if #ARGV < 4 or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 4 arguments, whole numbers where the header says int; nothing was changed')
  end
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local timeout_s, limit, ttr_ms = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local length, marks = redis.call('LLEN', entries), redis.call('SCARD', done)
if not timeout_s or string.find(ARGV[1] .. ARGV[3] .. ARGV[4], '%D') or #ARGV[1] > 13 or #ARGV[4] > 13 or ttr_ms == 0
  or not limit or limit < 1 or limit > 1000 then
  return redis.error_reply('ERR limit is 1 to 1000, ttr_ms and now_ms are whole numbers; nothing was changed')
end
local now_s = math.floor(now_ms / 1000)
local stamp = string.format('%.0f', math.max(1, now_s + (ttr_ms and math.ceil(ttr_ms / 1000) or timeout_s) - timeout_s))
local window = redis.call('LRANGE', entries, -1000, -1)
if #window == 0 then return {'empty', -1} end
local present, ids, times, handed, first = {}, {}, {}, {}, nil
for i, entry in ipairs(window) do
  local bar = string.find(entry, '|', 1, true)
  local time = bar and bar > 1 and string.match(entry, '^%d+$', bar + 1)
  present[entry], ids[i] = true, ''
  if time and #time < 12 then
    ids[i], times[i] = string.sub(entry, 1, bar - 1), tonumber(time)
    handed[ids[i]] = true
    if not first or times[i] < first then first = times[i] end
  elseif not bar then
    ids[i] = entry
  end
end
if length > #window then
  for _, entry in ipairs(redis.call('LRANGE', entries, 0, 999)) do present[entry] = true end
end
local marked = {}
if marks > 0 then
  for i, is_marked in ipairs(redis.call('SMISMEMBER', done, unpack(ids))) do marked[ids[i]] = is_marked == 1 end
end
local taken, gone, unmarked, pushed = {}, {}, {}, {}
for i = #window, 1, -1 do
  local id, time = ids[i], times[i]
  local entry = id .. '|' .. stamp
  if #taken == limit then break end
  if time and marked[id] then
    marked[id], gone[#gone + 1], unmarked[#unmarked + 1] = false, window[i], id
  elseif id ~= '' and not present[entry] and (not time or now_s - time > timeout_s) then
    present[entry], gone[#gone + 1], pushed[#pushed + 1] = true, window[i], entry
    taken[#taken + 1] = {id, entry}
    if marked[id] and not handed[id] then unmarked[#unmarked + 1] = id end
  else
    pushed[#pushed + 1] = window[i]
  end
end
local rotates = #taken < limit and length > #window
local next_ms = rotates and 10 or first and math.max(1, (first + timeout_s + 1) * 1000 - now_ms) or -1
if #gone == 0 and not rotates then return {'empty', next_ms} end

redis.call('LTRIM', entries, 0, -1) -- frees nothing: a drain may go on over maxmemory
if rotates and #pushed > 0 then
  redis.call('LPUSH', entries, unpack(pushed))
elseif #taken > 0 then
  local fresh = {}
  for i, job in ipairs(taken) do fresh[i] = job[2] end
  redis.call('LPUSH', entries, unpack(fresh))
end
if rotates then
  redis.call('LTRIM', entries, 0, -1 - #window)
else
  for _, entry in ipairs(gone) do redis.call('LREM', entries, -1, entry) end
end
if #unmarked > 0 then redis.call('SREM', done, unpack(unmarked)) end
if #taken == 0 then return {'empty', next_ms} end
local rows = {}
for i, job in ipairs(taken) do
  local id, entry = unpack(job)
  local body = redis.pcall('GET', entries .. ':data:' .. id)
  if type(body) ~= 'string' then body = id end
  rows[i] = {id, entry, #entry, tonumber(stamp), #body, body}
end
return {'moved', now_ms, rows}
