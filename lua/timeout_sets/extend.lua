-- Extend locks: make them last longer, since the worker is still at work.
--
-- The token is what the lock says. The original's locks say nothing: with an empty token a lock that is empty is extended,
-- and one that is gone is set again.
--
-- writes   suspects
-- derived  <id>-lock  behind the prefix: somebody works on the item
-- KEYS     todos        set   items to do
--          in_progress  set   items that somebody works on
--          done         set   items that are done
--          suspects     zset  item in progress by when it was first seen without a lock (ms)
-- ARGV     now_ms?      int   a test's clock; the server's when empty
--          ttr_ms?      int   how long from now; lock_ms when empty
--          lock_ms      int   how long the workers' own locks last
--          prefix       str   before the names of locks
--          each         (member bytes, token? bytes)
-- returns each  extended    (deadline_ms int)  extended
--               stale       the lease is over; somebody else may work on it
--               gone        no such item
--               wrong_type  the name of its lock is another program's key
local todos, in_progress, done, suspects = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
for _, at in ipairs({1, 2, 3}) do
  if #ARGV < 4 or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 4 arguments and rows, whole numbers where the header says int; nothing was changed')
  end
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local ttr_ms, lock_ms, prefix = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
for _, key in ipairs({todos, in_progress, done}) do redis.call('SCARD', key) end
redis.call('ZCARD', suspects)
local lease_ms = ttr_ms or lock_ms
if #ARGV < 6 or #ARGV > 2004 or #ARGV % 2 == 1 or not lease_ms or lease_ms < 1 or lease_ms > 1e12 then
  return redis.error_reply('ERR a batch has 1 to 1000 rows of member and token, a lease at least 1 ms; nothing was changed')
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
local words, kept = {}, {}
for at = 5, #ARGV, 2 do
  local item, token = ARGV[at], ARGV[at + 1]
  local left_ms, lock = lock_of(item)
  if redis.call('SISMEMBER', in_progress, item) == 0 then
    local known = redis.call('SISMEMBER', todos, item) == 1 or redis.call('SISMEMBER', done, item) == 1
    words[#words + 1] = known and 'stale' or 'gone'
  elseif left_ms == -3 then
    words[#words + 1] = 'wrong_type'
  elseif lock ~= token then
    words[#words + 1] = 'stale'
  else
    words[#words + 1], kept[#kept + 1] = {'extended', now_ms + lease_ms}, item
  end
end
if #kept == 0 then return words end

redis.call('ZREM', suspects, unpack(kept)) -- first, since it frees: what follows may go on over maxmemory
for _, item in ipairs(kept) do
  local key, px = prefix .. item .. '-lock', string.format('%.0f', lease_ms)
  if redis.call('PEXPIRE', key, px) == 0 then redis.call('SET', key, '', 'PX', px) end
end
return words
