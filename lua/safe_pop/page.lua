-- Return a page of the jobs of a place, in the order in which they are popped.
--
-- At most 5000 entries are read: in a longer list, the 2500 at each end, and `of` counts all others as ready. `time` is
-- -1 if there is none, and -2 if the entry cannot be decoded. The body is the value of `data`, else the id. `bytes` is
-- its length, or -1 if `data` has another type. An entry of more than 4096 bytes is cut, and `size` is its length. The
-- name of an id of more than 512 bytes is its beginning and the length of the entry; an empty id is named ''.
--
-- derived  <queue>:data:<id>  the body
-- KEYS     entries
-- ARGV     now_ms?     int  a test's clock; the server's when empty
--          timeout_s   str  seconds after which a lease expires
--          place       str  ready, in_progress or expired
--          offset      int  how many jobs to skip; -1: the last page, -1 - n: the one that ends n before the end
--          limit       int  how many at most, 1 to 1000
--          body_bytes  int  how much of each body, -1 for all
-- returns  page  (now_ms int, total int, of? int) rows (id bytes, member bytes, size int, time int, bytes int, body bytes)
-- include: keys, integers(now_ms timeout_s offset limit body_bytes), server_time, time_of
local timeout_s, place = tonumber(ARGV[2]), ARGV[3]
-- include: args(offset limit body_bytes)
if place ~= 'ready' and place ~= 'in_progress' and place ~= 'expired' then
  return redis.error_reply('ERR the place is ready, in_progress or expired')
end
if not limit or limit < 1 or limit > 1000 or not offset or not body_bytes then
  return redis.error_reply('ERR offset and body_bytes are whole numbers, limit is 1 to 1000')
end
local length, jobs = redis.call('LLEN', entries), {}
local function find_jobs(block)
  for i = #block, 1, -1 do
    local entry, where, id = block[i], 'ready', block[i]
    local time, bar = time_of(entry)
    if time then
      where = math.floor(now_ms / 1000) - time > timeout_s and 'expired' or 'in_progress'
      id = string.sub(entry, 1, bar - 1)
    else
      time = (bar or entry == '') and -2 or -1
    end
    if where == place then jobs[#jobs + 1] = {id, entry, time} end
  end
end
if length <= 5000 then
  find_jobs(redis.call('LRANGE', entries, 0, -1))
else
  find_jobs(redis.call('LRANGE', entries, -2500, -1))
  find_jobs(redis.call('LRANGE', entries, 0, 2499))
end
local rows = {}
if offset < 0 then offset = math.max(0, #jobs - limit + offset + 1) end
for i = offset + 1, math.min(#jobs, offset + limit) do
  local id, entry, time = unpack(jobs[i])
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
return {'page', now_ms, #jobs, place == 'ready' and length > 5000 and #jobs + length - 5000 or '', rows}
