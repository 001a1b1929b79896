-- Pull items to do, any of them: they are done at once, whatever becomes of them.
--
-- An item to do that has a lock is left alone: somebody still works on it. `next_ms` is how long the first such lock lasts,
-- -1 without one.
--
-- moves    todos -> done
-- derived  <id>-lock  behind the prefix: somebody works on the item
-- KEYS     todos        set   items to do
--          done         set   items that are done
-- ARGV     now_ms?      int   a test's clock; the server's when empty
--          limit        int   how many at most, 1 to 1000
--          prefix       str   before the names of locks
-- returns  moved  (now_ms int) rows (head bytes, size int, tail bytes, lock_ms int, lock bytes, late_ms int)  pulled
--          empty  (next_ms int)  nothing is to do
local todos, done = KEYS[1], KEYS[2]
for _, at in ipairs({1, 2}) do
  if #ARGV < 3 or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 3 arguments, whole numbers where the header says int; nothing was changed')
  end
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local limit, prefix = tonumber(ARGV[2]), ARGV[3]
for _, key in ipairs(KEYS) do redis.call('SCARD', key) end
if not limit or limit < 1 or limit > 1000 then
  return redis.error_reply('ERR limit is 1 to 1000; nothing was changed')
end
local rows, next_ms = {}, -1
for _, spare in ipairs({0, 100}) do -- a second, larger draw where the first met locks
  rows = {}
  local drawn = redis.call('SRANDMEMBER', todos, limit + spare)
  for _, item in ipairs(drawn) do
    local left_ms = redis.call('PTTL', prefix .. item .. '-lock')
    if left_ms == -2 and #rows < limit then rows[#rows + 1] = {item, #item, string.sub(item, -64), -2, '', -1} end
    if left_ms >= 0 and (next_ms < 0 or left_ms < next_ms) then next_ms = left_ms end
  end
  if #rows == limit or #drawn < limit then break end
end
if #rows == 0 then return {'empty', next_ms} end

for _, row in ipairs(rows) do redis.call('SMOVE', todos, done, row[1]) end
return {'moved', now_ms, rows}
