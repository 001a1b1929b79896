-- Ack leased items: move them to done, and delete their locks.
--
-- The token is the text of the lock. The locks of the original have no text: with an empty token, the lock must be empty or
-- missing. If the lock has another text, or is missing although there is a token, the lease is over.
--
-- moves    in_progress -> done
-- derived  <id>-lock  behind the prefix: a worker holds the item
-- KEYS     todos in_progress done
-- ARGV     prefix       str   in front of the names of locks
--          each         (member bytes, token? bytes)
-- returns each  moved       acked
--               done        it is acked already
--               stale       the lease is over; another worker may hold it
--               gone        no such item
--               wrong_type  the name of its lock is another program's key
-- include: keys, args, key_types
local target = done
local function find_missing_reason(item, is_moved)
  if is_moved or redis.call('SISMEMBER', done, item) == 1 then return 'done' end
  return redis.call('SISMEMBER', todos, item) == 1 and 'stale' or 'gone'
end
-- include: read_lock, end_leases
