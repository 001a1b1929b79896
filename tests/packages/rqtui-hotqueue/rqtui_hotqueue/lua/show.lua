-- One entry, among the first 1000 where it is too long to be told whole.
--
-- KEYS     waiting
-- ARGV     now_ms?     int    a test's clock; the server's when empty
--          head        bytes  the entry, or its first 4096 bytes
--          size        int    its whole length
--          tail        bytes  its last 64 bytes
--          body_bytes  int    a longer entry (and longer than 4096) is cut; -1: none
-- returns  found  (now_ms int, place str, head bytes, size int, tail bytes)
--          gone   nothing like it waits
-- include: keys, args, clock
if not size or not body_bytes then return redis.error_reply('ERR size and body_bytes are whole numbers') end
local entry
if #head == size then
  entry = redis.call('LPOS', waiting, head) and head
else
  for _, each in ipairs(redis.call('LRANGE', waiting, 0, 999)) do
    if #each == size and string.sub(each, 1, #head) == head and string.sub(each, -#tail) == tail then entry = each end
  end
end
if not entry then return 'gone' end
local whole = body_bytes < 0 or size <= math.max(4096, body_bytes)
return {'found', now_ms, 'waiting', whole and entry or string.sub(entry, 1, 4096), size, string.sub(entry, -64)}
