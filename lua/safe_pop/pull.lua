-- Pull jobs out of the queue: no lease, no second try.
--
-- Takes what `reserve` would hand out, and its data with it; looks at the 1000 entries that would be popped next. An entry with a
-- time whose id is marked done is dropped with its mark.
--
-- moves    ready expired ->
-- writes   done
-- derived  <queue>:data:<id>  the body
-- KEYS     entries (ready in_progress expired)  list  id, or id|unix seconds once handed out
--          done       set   ids of finished jobs whose entry still stands
-- ARGV     now_ms?    int   a test's clock; the server's when empty
--          timeout_s  str   seconds after which an entry that was handed out is late
--          limit      int   how many at most, 1 to 1000
-- returns  moved  (now_ms int) rows (id bytes, member bytes, size int, time int, bytes int, body bytes)  pulled
--          empty  nothing waits
local entries, done = KEYS[1], KEYS[2]
for _, at in ipairs({1, 2, 3}) do
  if #ARGV < 3 or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 3 arguments, whole numbers where the header says int; nothing was changed')
  end
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local timeout_s, limit = tonumber(ARGV[2]), tonumber(ARGV[3])
local marks = redis.call('SCARD', done)
if not timeout_s or string.find(ARGV[1] .. ARGV[3], '%D') or #ARGV[1] > 13 or not limit or limit < 1 or limit > 1000 then
  return redis.error_reply('ERR limit is 1 to 1000, now_ms a whole number; nothing was changed')
end
local window, taken, gone, unmarked = redis.call('LRANGE', entries, -1000, -1), {}, {}, {}
for i = #window, 1, -1 do
  local entry, bar = window[i], string.find(window[i], '|', 1, true)
  local time = bar and bar > 1 and string.match(entry, '^%d+$', bar + 1)
  local id = time and #time < 12 and string.sub(entry, 1, bar - 1) or not bar and entry or ''
  if #taken == limit then break end
  if time and id ~= '' and marks > 0 and not unmarked[id] and redis.call('SISMEMBER', done, id) == 1 then
    gone[#gone + 1], unmarked[id] = entry, true
  elseif id ~= '' and (not time or math.floor(now_ms / 1000) - time > timeout_s) then
    gone[#gone + 1] = entry
    local data = entries .. ':data:' .. id
    local body = redis.pcall('GET', data)
    local is_stored = type(body) == 'string'
    if not is_stored then body = id end
    taken[#taken + 1] = {id, id, #id, -1, #body, body}
    gone[entry] = is_stored and data or nil
  end
end
for _, entry in ipairs(gone) do
  redis.call('LREM', entries, -1, entry)
  if gone[entry] then redis.pcall('DEL', gone[entry]) end
end
for id in pairs(unmarked) do redis.call('SREM', done, id) end
if #taken == 0 then return 'empty' end
return {'moved', now_ms, taken}
