-- Find one job by its id or by its whole entry.
--
-- If several entries have the id, the one that is popped first is returned. A call reads 5000 entries (in a longer list, the 2500
-- at each end), and searches 200 000 entries from the pop end for one without a time. The columns are those of `page`.
-- A body longer than `body_bytes` is left out.
--
-- derived  <queue>:data:<id>  the body
-- KEYS     entries
-- ARGV     now_ms?     int    a test's clock; the server's when empty
--          timeout_s   str    seconds after which a lease expires
--          id          bytes  the job
--          body_bytes  int    a longer body is left out; -1 for all of it
-- returns  found  (now_ms int, place str, id bytes, member bytes, size int, time int, bytes int, body bytes)  the job
--          gone   no such job
-- include: keys, args(id), integers(now_ms timeout_s body_bytes), server_time, time_of
local timeout_s, body_bytes = tonumber(ARGV[2]), tonumber(ARGV[4])
if not body_bytes then return redis.error_reply('ERR body_bytes is a whole number') end
local function name_of(own, entry)
  return #own > 512 and string.sub(own, 1, 256) .. '...' .. #entry or own ~= '' and own or "''"
end
local function reply(entry, own, time)
  local place = 'ready'
  if time >= 0 then place = math.floor(now_ms / 1000) - time > timeout_s and 'expired' or 'in_progress' end
  local data = entries .. ':data:' .. own
  local bytes, has_data = #own, false
  local stored = time > -2 and redis.pcall('STRLEN', data)
  if type(stored) == 'table' then
    bytes = -1
  elseif stored and (stored > 0 or redis.call('EXISTS', data) == 1) then
    bytes, has_data = stored, true
  end
  local body = ''
  if bytes >= 0 and (body_bytes < 0 or bytes <= body_bytes) then body = has_data and redis.call('GET', data) or own end
  local member = body_bytes < 0 and entry or string.sub(entry, 1, math.max(4096, body_bytes))
  return {'found', now_ms, place, name_of(own, entry), member, #entry, time, bytes, body}
end
local function find_in(block)
  for i = #block, 1, -1 do
    local entry, own = block[i], block[i]
    local time, bar = time_of(entry)
    if time then
      own = string.sub(entry, 1, bar - 1)
    else
      time = (bar or entry == '') and -2 or -1
    end
    if name_of(own, entry) == id or own == id or entry == id then
      return reply(entry, own, time)
    end
  end
end
local length = redis.call('LLEN', entries)
if length <= 5000 then return find_in(redis.call('LRANGE', entries, 0, -1)) or {'gone'} end
local found = find_in(redis.call('LRANGE', entries, -2500, -1)) or find_in(redis.call('LRANGE', entries, 0, 2499))
if not found and not string.find(id, '|', 1, true) and redis.call('LPOS', entries, id, 'RANK', -1, 'MAXLEN', 200000) then
  found = reply(id, id, -1)
end
return found or {'gone'}
