-- One item, wherever it stands.
--
-- An item of which only the beginning is known is looked for by its first bytes, its size and its last bytes, among about
-- 5000 members of each set. `lock_ms` is how long its lock lasts: -1 for ever, -2 there is none, -3 another program's key;
-- `late_ms` since when a reaper sees none, -1 when it does not.
--
-- derived  <id>-lock  behind the prefix: somebody works on the item
-- KEYS     todos        set   items to do
--          in_progress  set   items that somebody works on
--          done         set   items that are done
--          suspects     zset  item in progress by when it was first seen without a lock (ms)
-- ARGV     now_ms?      int   a test's clock; the server's when empty
--          head         bytes  the item, or its beginning
--          size         int   its whole length
--          tail         bytes  its last bytes, up to 64
--          body_bytes   int   a longer item is cut to its first 4096 bytes; -1: never
--          prefix       str   before the names of locks
-- returns  found  (now_ms int, place str, head bytes, size int, tail bytes, lock_ms int, lock bytes, late_ms int)
--          gone   it is in none of the three sets
local todos, in_progress, done, suspects = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
for _, at in ipairs({1, 3, 5}) do
  if #ARGV < 6 or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 6 arguments, whole numbers where the header says int; nothing was changed')
  end
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local head, size, tail, body_bytes, prefix = ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5]), ARGV[6]
if not size or not body_bytes then return redis.error_reply('ERR size and body_bytes are whole numbers') end
local function found_in(key)
  if #head == size then return redis.call('SISMEMBER', key, head) == 1 and head end
  local cursor, looked = '0', 0
  repeat
    local reply = redis.call('SSCAN', key, cursor, 'COUNT', 500)
    cursor, looked = reply[1], looked + #reply[2] + 1
    for _, item in ipairs(reply[2]) do
      if #item == size and string.sub(item, 1, #head) == head and string.sub(item, -#tail) == tail then return item end
    end
  until cursor == '0' or looked > 5000
end
-- block: lock_of
local function lock_of(item) -- how long it lasts (-1 for ever, -2 there is none, -3 no lock but another key) and what it says
  local name = prefix .. item .. '-lock'
  local lasts_ms = redis.call('PTTL', name)
  local says = lasts_ms == -2 and '' or redis.pcall('GET', name)
  if type(says) ~= 'string' then return -3, '' end
  return lasts_ms, says
end
-- end
for _, place in ipairs({{in_progress, 'in_progress'}, {todos, 'todos'}, {done, 'done'}}) do
  local item = found_in(place[1])
  if item then
    local lock_ms, lock = lock_of(item)
    local late = lock_ms == -2 and place[1] == in_progress and redis.call('ZSCORE', suspects, item)
    local whole = body_bytes < 0 or size <= math.max(4096, body_bytes)
    return {
      'found', now_ms, place[2], whole and item or string.sub(item, 1, 4096), size, string.sub(item, -64), lock_ms, lock,
      math.floor(tonumber(late or -1)),
    }
  end
end
return {'gone'}
