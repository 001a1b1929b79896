-- Return one item and its place.
--
-- A long item is found by its first bytes, its size and its last bytes, among about 5000 members of each set.
-- `lock_ms` is the time to live of its lock: -1 without end, -2 no lock, -3 another program's key. `late_ms` is when a reaper
-- first found no lock, -1 if it found one.
--
-- derived  <id>-lock  behind the prefix: a worker holds the item
-- KEYS     todos in_progress done suspects
-- ARGV     now_ms?      int   a test's clock; the server's when empty
--          head         bytes  the item, or its beginning
--          size         int   its whole length
--          tail         bytes  its last bytes, up to 64
--          body_bytes   int   a longer item is cut to its first 4096 bytes; -1 returns any item
--          prefix       str   in front of the names of locks
-- returns  found  (now_ms int, place str, head bytes, size int, tail bytes, lock_ms int, lock bytes, late_ms int)
--          gone   it is in none of the three sets
-- include: keys, integers, server_time, args
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
-- include: read_lock
for _, place in ipairs({{in_progress, 'in_progress'}, {todos, 'todos'}, {done, 'done'}}) do
  local item = found_in(place[1])
  if item then
    local lock_ms, lock = read_lock(item)
    local late = lock_ms == -2 and place[1] == in_progress and redis.call('ZSCORE', suspects, item)
    local whole = body_bytes < 0 or size <= math.max(4096, body_bytes)
    return {
      'found', now_ms, place[2], whole and item or string.sub(item, 1, 4096), size, string.sub(item, -64), lock_ms, lock,
      math.floor(tonumber(late or -1)),
    }
  end
end
return {'gone'}
