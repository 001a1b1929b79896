-- A sample of a place: those of the given members that still stand there, and further ones.
--
-- A set has no order, so whoever looks holds what it was shown, and gives it back here. Where fewer than `limit` of it are
-- left, a walk over the set goes on at `cursor` until there are enough; it looks at about 2000 members and `limit` more.
-- What it meets may be known already. Items of more than 4096 bytes (or `body_bytes`; -1: any) are cut to their first 4096.
-- `lock_ms` is how long a lock lasts: -1 for ever, -2 there is none, -3 another program's key; `late_ms` since when a reaper
-- sees none, -1 when it does not.
--
-- derived  <id>-lock  behind the prefix: somebody works on the item
-- KEYS     todos        set   items to do
--          in_progress  set   items that somebody works on
--          done         set   items that are done
--          suspects     zset  item in progress by when it was first seen without a lock (ms)
-- ARGV     now_ms?      int   a test's clock; the server's when empty
--          place        str   todos, in_progress or done
--          limit        int   how many rows, 1 to 4000
--          body_bytes   int   items up to this size are whole
--          prefix       str   before the names of locks
--          cursor       str   where the walk goes on; 0 begins one
--          each         (member bytes)
-- returns  page  (now_ms int, of int, cursor str) rows (head bytes, size int, tail bytes, lock_ms int, lock bytes, late_ms int)
local todos, in_progress, done, suspects = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
for _, at in ipairs({1, 3, 4, 6}) do
  if #ARGV < 6 or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 6 arguments, whole numbers where the header says int; nothing was changed')
  end
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local place, limit, body_bytes, prefix, cursor = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], ARGV[6]
local key = ({todos = todos, in_progress = in_progress, done = done})[place]
if not key then return redis.error_reply('ERR place is todos, in_progress or done') end
if not limit or limit < 1 or limit > 4000 or not body_bytes or #ARGV > 8006 or string.find(cursor, '%D') or cursor == '' then
  return redis.error_reply('ERR limit is 1 to 4000, body_bytes and cursor are whole numbers, and at most 8000 members are given')
end
local whole = body_bytes < 0 and math.huge or math.max(4096, body_bytes)
-- block: lock_of
local function lock_of(item) -- how long it lasts (-1 for ever, -2 there is none, -3 no lock but another key) and what it says
  local name = prefix .. item .. '-lock'
  local lasts_ms = redis.call('PTTL', name)
  local says = lasts_ms == -2 and '' or redis.pcall('GET', name)
  if type(says) ~= 'string' then return -3, '' end
  return lasts_ms, says
end
-- end
local rows, met = {}, {}
local function show(item)
  if met[item] then return end
  met[item] = true
  local lock_ms, lock = lock_of(item)
  local late = lock_ms == -2 and place == 'in_progress' and redis.call('ZSCORE', suspects, item)
  local head = #item <= whole and item or string.sub(item, 1, 4096)
  rows[#rows + 1] = {head, #item, string.sub(item, -64), lock_ms, lock, math.floor(tonumber(late or -1))}
end
for from = 7, #ARGV, 1000 do
  local asked = {unpack(ARGV, from, math.min(from + 999, #ARGV))}
  for i, is_there in ipairs(redis.call('SMISMEMBER', key, unpack(asked))) do
    if is_there == 1 then show(asked[i]) end
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
