-- Lease jobs to a worker: ready jobs, and jobs whose lease has expired.
--
-- A call reads the 1000 entries that are popped next, and skips those in progress. If these are not enough and the list
-- has more, they move to the other end unchanged, so that the next call reads the others. The new entry has the time
-- now + `ttr_ms` - timeout, because an entry expires one timeout after its time. The new entry is the token: a job
-- whose new entry is in the list already is skipped. An entry with a time whose id is marked as done is dropped with
-- its mark. The mark of an entry without a time is removed if no other entry of the id has a time, because it is an old
-- one. `next_ms` is the time until the next lease expires.
--
-- moves    ready -> in_progress
--          expired -> | in_progress
-- writes   done
-- derived  <queue>:data:<id>  the body
-- KEYS     entries done
-- ARGV     now_ms?    int   a test's clock; the server's when empty
--          timeout_s  str   seconds after which a lease expires
--          limit      int   how many at most, 1 to 1000
--          ttr_ms?    int   duration of the lease, in whole seconds; the timeout when empty
-- returns  moved  (now_ms int) rows (id bytes, member bytes, size int, time int, bytes int, body bytes)  leased
--          empty  (next_ms int)  no job waits
-- include: keys, integers(now_ms timeout_s limit ttr_ms), server_time, time_of
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
local present, ids, times, leased, first = {}, {}, {}, {}, nil
for i, entry in ipairs(window) do
  local time, bar = time_of(entry)
  present[entry], ids[i] = true, ''
  if time then
    ids[i], times[i] = string.sub(entry, 1, bar - 1), time
    leased[ids[i]] = true
    first = math.min(first or time, time)
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
local taken, removed, unmarked, pushed = {}, {}, {}, {}
for i = #window, 1, -1 do
  local id, time = ids[i], times[i]
  local entry = id .. '|' .. stamp
  if #taken == limit then break end
  if time and marked[id] then
    marked[id], removed[#removed + 1], unmarked[#unmarked + 1] = false, window[i], id
  elseif id ~= '' and not present[entry] and (not time or now_s - time > timeout_s) then
    present[entry], removed[#removed + 1], pushed[#pushed + 1] = true, window[i], entry
    taken[#taken + 1] = {id, entry}
    if marked[id] and not leased[id] then unmarked[#unmarked + 1] = id end
  else
    pushed[#pushed + 1] = window[i]
  end
end
local rotates = #taken < limit and length > #window
local next_ms = rotates and 10 or first and math.max(1, (first + timeout_s + 1) * 1000 - now_ms) or -1
if #removed == 0 and not rotates then return {'empty', next_ms} end

redis.call('LTRIM', entries, 0, -1) -- removes nothing, but lets the drain continue over maxmemory
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
  for _, entry in ipairs(removed) do redis.call('LREM', entries, -1, entry) end
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
