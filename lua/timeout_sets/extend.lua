-- Extend leases: give the locks a longer time to live.
--
-- The token is the text of the lock. The locks of the original have no text: with an empty token, an empty lock is extended,
-- and a missing lock is set again.
--
-- writes   suspects
-- derived  <id>-lock  behind the prefix: a worker holds the item
-- KEYS     todos in_progress done suspects
-- ARGV     now_ms?      int   a test's clock; the server's when empty
--          ttr_ms?      int   the new lease from now; lock_ms when empty
--          lock_ms      int   time to live of the locks of the workers
--          prefix       str   in front of the names of locks
--          each         (member bytes, token? bytes)
-- returns each  extended    (deadline_ms int)  extended
--               stale       the lease is over; another worker may hold it
--               gone        no such item
--               wrong_type  the name of its lock is another program's key
-- include: keys, integers, server_time, args, key_types
local lease_ms = ttr_ms or lock_ms
if #ARGV < 6 or #ARGV > 2004 or #ARGV % 2 == 1 or not lease_ms or lease_ms < 1 or lease_ms > 1e12 then
  return redis.error_reply('ERR a batch has 1 to 1000 rows of member and token, a lease at least 1 ms; nothing was changed')
end
-- include: read_lock
local outcomes, extended = {}, {}
for at = 5, #ARGV, 2 do
  local item, token = ARGV[at], ARGV[at + 1]
  local left_ms, lock = read_lock(item)
  if redis.call('SISMEMBER', in_progress, item) == 0 then
    local exists = redis.call('SISMEMBER', todos, item) == 1 or redis.call('SISMEMBER', done, item) == 1
    outcomes[#outcomes + 1] = exists and 'stale' or 'gone'
  elseif left_ms == -3 then
    outcomes[#outcomes + 1] = 'wrong_type'
  elseif lock ~= token then
    outcomes[#outcomes + 1] = 'stale'
  else
    outcomes[#outcomes + 1], extended[#extended + 1] = {'extended', now_ms + lease_ms}, item
  end
end
if #extended == 0 then return outcomes end

redis.call('ZREM', suspects, unpack(extended)) -- first, because it frees memory: the rest may go on over maxmemory
for _, item in ipairs(extended) do
  local key, px = prefix .. item .. '-lock', string.format('%.0f', lease_ms)
  if redis.call('PEXPIRE', key, px) == 0 then redis.call('SET', key, '', 'PX', px) end
end
return outcomes
