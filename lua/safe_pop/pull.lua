-- Pull jobs out of the queue: at most once, with no lease and no retry.
--
-- The script takes the jobs that `reserve` would hand out, with their data, from the 1000 entries that are popped next.
-- An entry with a time whose id is marked as done is dropped with its mark.
--
-- moves    ready expired ->
-- writes   done
-- derived  <queue>:data:<id>  the body
-- KEYS     entries done
-- ARGV     now_ms?    int   a test's clock; the server's when empty
--          timeout_s  str   seconds after which a lease expires
--          limit      int   how many at most, 1 to 1000
-- returns  moved  (now_ms int) rows (id bytes, member bytes, size int, time int, bytes int, body bytes)  pulled
--          empty  no job waits
-- include: keys, integers(now_ms timeout_s limit), server_time, time_of
local timeout_s, limit = tonumber(ARGV[2]), tonumber(ARGV[3])
local marks = redis.call('SCARD', done)
if not timeout_s or string.find(ARGV[1] .. ARGV[3], '%D') or #ARGV[1] > 13 or not limit or limit < 1 or limit > 1000 then
  return redis.error_reply('ERR limit is 1 to 1000, now_ms a whole number; nothing was changed')
end
local window, taken, removed, unmarked = redis.call('LRANGE', entries, -1000, -1), {}, {}, {}
for i = #window, 1, -1 do
  local entry = window[i]
  local time, bar = time_of(entry)
  local id = time and string.sub(entry, 1, bar - 1) or not bar and entry or ''
  if #taken == limit then break end
  if time and id ~= '' and marks > 0 and not unmarked[id] and redis.call('SISMEMBER', done, id) == 1 then
    removed[#removed + 1], unmarked[id] = entry, true
  elseif id ~= '' and (not time or math.floor(now_ms / 1000) - time > timeout_s) then
    removed[#removed + 1] = entry
    local data = entries .. ':data:' .. id
    local body = redis.pcall('GET', data)
    local is_stored = type(body) == 'string'
    if not is_stored then body = id end
    taken[#taken + 1] = {id, id, #id, -1, #body, body}
    removed[entry] = is_stored and data or nil
  end
end
for _, entry in ipairs(removed) do
  redis.call('LREM', entries, -1, entry)
  if removed[entry] then redis.pcall('DEL', removed[entry]) end
end
for id in pairs(unmarked) do redis.call('SREM', done, id) end
if #taken == 0 then return 'empty' end
return {'moved', now_ms, taken}
