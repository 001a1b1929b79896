-- Lease items to do, any of them: a lock that says whose they are, and the move, in one step.
--
-- The lock says `microsecond-number` and the worker's name; the original's workers only ask whether it is there. An item to
-- do that has a lock is left alone: somebody still works on it. `next_ms` is how long the first such lock lasts, -1 without.
--
-- moves    todos -> in_progress
-- derived  <id>-lock  behind the prefix: somebody works on the item
-- KEYS     todos        set   items to do
--          in_progress  set   items that somebody works on
-- ARGV     now_ms?      int   a test's clock; the server's when empty
--          limit        int   how many at most, 1 to 1000
--          worker?      str   who takes them
--          ttr_ms?      int   how long the lease lasts; lock_ms when empty
--          lock_ms      int   how long the workers' own locks last
--          prefix       str   before the names of locks
-- returns  moved  (now_ms int) rows (head bytes, size int, tail bytes, lock_ms int, lock bytes, late_ms int)  leased
--          empty  (next_ms int)  nothing is to do
local todos, in_progress = KEYS[1], KEYS[2]
for _, at in ipairs({1, 2, 4, 5}) do
  if #ARGV < 6 or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 6 arguments, whole numbers where the header says int; nothing was changed')
  end
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local limit, worker, ttr_ms, lock_ms, prefix = tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
for _, key in ipairs(KEYS) do redis.call('SCARD', key) end
local lease_ms = ttr_ms or lock_ms
if not limit or limit < 1 or limit > 1000 or not lease_ms or lease_ms < 1 or lease_ms > 1e12 then
  return redis.error_reply('ERR limit is 1 to 1000, the lease is at least 1 ms; nothing was changed')
end
local free, next_ms = {}, -1
for _, spare in ipairs({0, 100}) do -- a second, larger draw where the first met locks
  free = {}
  local drawn = redis.call('SRANDMEMBER', todos, limit + spare)
  for _, item in ipairs(drawn) do
    local left_ms = redis.call('PTTL', prefix .. item .. '-lock')
    if left_ms == -2 and #free < limit then free[#free + 1] = item end
    if left_ms >= 0 and (next_ms < 0 or left_ms < next_ms) then next_ms = left_ms end
  end
  if #free == limit or #drawn < limit then break end
end
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
