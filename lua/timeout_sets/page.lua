-- Return a sample of a place: the given members that are still there, and more.
--
-- A set has no order. The caller keeps the members that it shows, and sends them again. If fewer than `limit` of them are left,
-- a walk over the set continues at `cursor` until there are enough. It reads about 2000 members and `limit` more, and may return
-- members that the caller has. Items longer than 4096 bytes (or `body_bytes`; -1: any length) are cut to their first 4096.
-- `lock_ms` is the time to live of a lock: -1 without end, -2 no lock, -3 another program's key. `late_ms` is when a reaper first
-- found no lock, -1 if it found one.
--
-- derived  <id>-lock  behind the prefix: a worker holds the item
-- KEYS     todos in_progress done suspects
-- ARGV     now_ms?      int   a test's clock; the server's when empty
--          place        str   todos, in_progress or done
--          limit        int   rows, 1 to 4000
--          body_bytes   int   items up to this size are whole
--          prefix       str   in front of the names of locks
--          cursor       str   the next step of the walk; 0 begins one
--          each         (member bytes)
-- returns  page  (now_ms int, of int, cursor str) rows (head bytes, size int, tail bytes, lock_ms int, lock bytes, late_ms int)
-- include: keys, integers(now_ms limit body_bytes cursor), server_time, args
local key = ({todos = todos, in_progress = in_progress, done = done})[place]
if not key then return redis.error_reply('ERR place is todos, in_progress or done') end
if not limit or limit < 1 or limit > 4000 or not body_bytes or #ARGV > 8006 or string.find(cursor, '%D') or cursor == '' then
  return redis.error_reply('ERR limit is 1 to 4000, body_bytes and cursor are whole numbers, and at most 8000 members are given')
end
local whole = body_bytes < 0 and math.huge or math.max(4096, body_bytes)
-- include: read_lock
local rows, seen = {}, {}
local function show(item)
  if seen[item] then return end
  seen[item] = true
  local lock_ms, lock = read_lock(item)
  local late = lock_ms == -2 and place == 'in_progress' and redis.call('ZSCORE', suspects, item)
  local head = #item <= whole and item or string.sub(item, 1, 4096)
  rows[#rows + 1] = {head, #item, string.sub(item, -64), lock_ms, lock, math.floor(tonumber(late or -1))}
end
for from = 7, #ARGV, 1000 do
  local members = {unpack(ARGV, from, math.min(from + 999, #ARGV))}
  for i, is_there in ipairs(redis.call('SMISMEMBER', key, unpack(members))) do
    if is_there == 1 then show(members[i]) end
  end
end
local looked = 0
while #rows < limit and looked < 2000 + limit do
  local reply = redis.call('SSCAN', key, cursor, 'COUNT', math.max(10, math.min(1000, limit - #rows)))
  cursor = reply[1]
  for _, item in ipairs(reply[2]) do show(item) end
  looked = looked + #reply[2] + 1
  if cursor == '0' then break end
end
return {'page', now_ms, redis.call('SCARD', key), cursor, rows}
