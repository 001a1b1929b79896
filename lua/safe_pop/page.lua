-- A page of the jobs of a place, in the order in which they are popped.
--
-- At most 5000 entries are looked at: of a longer list, the 2500 at each end; `of` then takes all between for ready. `time` is
-- -1 where there is none and -2 where the entry cannot be read. A body is what `data` holds, else the id; `bytes` is its
-- length, -1 where `data` is of another type. An entry of more than 4096 bytes is cut there (`size` is its length), and the
-- name of an id of more than 512 is its beginning and that length; of an empty one, ''.
--
-- derived  <queue>:data:<id>  the body
-- KEYS     entries (ready in_progress expired)  list  id, or id|unix seconds once handed out
-- ARGV     now_ms?     int  a test's clock; the server's when empty
--          timeout_s   str  seconds after which an entry that was handed out is late
--          place       str  ready, in_progress or expired
--          offset      int  how many to pass over; -1 is the last page
--          limit       int  how many at most, 1 to 1000
--          body_bytes  int  how much of each body, -1 for all
-- returns  page  (now_ms int, total int, of? int) rows (id bytes, member bytes, size int, time int, bytes int, body bytes)
local entries = KEYS[1]
for _, at in ipairs({1, 2, 4, 5, 6}) do
  if #ARGV < 6 or not tonumber(ARGV[2]) or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 6 arguments, whole numbers where the header says int; nothing was changed')
  end
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local timeout_s, place = tonumber(ARGV[2]), ARGV[3]
local offset, limit, body_bytes = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
if place ~= 'ready' and place ~= 'in_progress' and place ~= 'expired' then
  return redis.error_reply('ERR the place is ready, in_progress or expired')
end
if not limit or limit < 1 or limit > 1000 or not offset or not body_bytes then
  return redis.error_reply('ERR offset and body_bytes are whole numbers, limit is 1 to 1000')
end
local length, found = redis.call('LLEN', entries), {}
local function look(block)
  for i = #block, 1, -1 do
    local entry, bar = block[i], string.find(block[i], '|', 1, true)
    local time = bar and bar > 1 and string.match(entry, '^%d+$', bar + 1)
    local where, id = 'ready', entry
    if time and #time < 12 then
      where = math.floor(now_ms / 1000) - time > timeout_s and 'expired' or 'in_progress'
      id, time = string.sub(entry, 1, bar - 1), tonumber(time)
    else
      time = (bar or entry == '') and -2 or -1
    end
    if where == place then found[#found + 1] = {id, entry, time} end
  end
end
if length <= 5000 then
  look(redis.call('LRANGE', entries, 0, -1))
else
  look(redis.call('LRANGE', entries, -2500, -1))
  look(redis.call('LRANGE', entries, 0, 2499))
end
local rows = {}
if offset < 0 then offset = math.max(0, #found - limit) end
for i = offset + 1, math.min(#found, offset + limit) do
  local id, entry, time = unpack(found[i])
  local data = entries .. ':data:' .. id
  local bytes, body = #id, string.sub(id, 1, body_bytes)
  local stored = time > -2 and redis.pcall('STRLEN', data)
  if type(stored) == 'table' then
    bytes, body = -1, ''
  elseif stored and (stored > 0 or redis.call('EXISTS', data) == 1) then
    bytes, body = stored, body_bytes == 0 and '' or redis.call('GETRANGE', data, 0, body_bytes < 0 and -1 or body_bytes - 1)
  end
  local name = #id > 512 and string.sub(id, 1, 256) .. '...' .. #entry or id ~= '' and id or "''"
  rows[#rows + 1] = {name, string.sub(entry, 1, math.max(4096, body_bytes)), #entry, time, bytes, body}
end
return {'page', now_ms, #found, place == 'ready' and length > 5000 and #found + length - 5000 or '', rows}
