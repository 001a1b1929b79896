-- Lease items to do in any order: set a lock that names the worker, and move the item.
--
-- The text of the lock is `microseconds-number` and the worker's name. Workers of the original only check that a lock exists. An
-- item with a lock is skipped, because a worker may still be working on it. `next_ms` is the time until the first such lock ends, -1 for none.
--
-- moves    todos -> in_progress
-- derived  <id>-lock  behind the prefix: a worker holds the item
-- KEYS     todos in_progress
-- ARGV     now_ms?      int   a test's clock; the server's when empty
--          limit        int   items at most, 1 to 1000
--          worker?      str   its name
--          ttr_ms?      int   length of the lease; lock_ms when empty
--          lock_ms      int   time to live of the locks of the workers
--          prefix       str   in front of the names of locks
-- returns  moved  (now_ms int) rows (head bytes, size int, tail bytes, lock_ms int, lock bytes, late_ms int)  leased
--          empty  (next_ms int)  nothing is to do
-- include: keys, integers, server_time, args, key_types
local lease_ms = ttr_ms or lock_ms
if not limit or limit < 1 or limit > 1000 or not lease_ms or lease_ms < 1 or lease_ms > 1e12 then
  return redis.error_reply('ERR limit is 1 to 1000, the lease is at least 1 ms; nothing was changed')
end
-- include: unlocked_items
if #free == 0 then return {'empty', next_ms} end

local rows, micros = {}, string.format('%.0f', clock[1] * 1e6 + clock[2])
redis.call('SPOP', todos, 0) -- takes nothing: a drain may go on over maxmemory
for i, item in ipairs(free) do
  local lock = micros .. '-' .. i .. (worker ~= '' and ' ' .. worker or '')
  redis.call('SET', prefix .. item .. '-lock', lock, 'PX', string.format('%.0f', lease_ms))
  redis.call('SMOVE', todos, in_progress, item)
  rows[i] = {item, #item, string.sub(item, -64), lease_ms, lock, -1}
end
return {'moved', now_ms, rows}
