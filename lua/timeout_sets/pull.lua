-- Pull items to do in any order: no lease, they are done at once.
--
-- An item with a lock is skipped, because a worker may still be working on it. `next_ms` is the time until the first such lock
-- ends, -1 for none.
--
-- moves    todos -> done
-- derived  <id>-lock  behind the prefix: a worker holds the item
-- KEYS     todos done
-- ARGV     now_ms?      int   a test's clock; the server's when empty
--          limit        int   items at most, 1 to 1000
--          prefix       str   in front of the names of locks
-- returns  moved  (now_ms int) rows (head bytes, size int, tail bytes, lock_ms int, lock bytes, late_ms int)  pulled
--          empty  (next_ms int)  nothing is to do
-- include: keys, integers, server_time, args, key_types
if not limit or limit < 1 or limit > 1000 then return redis.error_reply('ERR limit is 1 to 1000; nothing was changed') end
-- include: unlocked_items
if #free == 0 then return {'empty', next_ms} end
local rows = {}
for i, item in ipairs(free) do rows[i] = {item, #item, string.sub(item, -64), -2, '', -1} end

for _, row in ipairs(rows) do redis.call('SMOVE', todos, done, row[1]) end
return {'moved', now_ms, rows}
