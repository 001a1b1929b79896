-- Reap items in progress whose lock is gone, and stays gone: they are to do again.
--
-- The original's workers move an item and lock it afterwards: one without a lock may just have been taken. So it is noted
-- first, and given back when it has no lock two seconds later either; a note of more than a minute ago counts as a new
-- one. The notes are shared, so that any number of reapers agree. A call gives back what was noted, or else walks on over
-- items in progress, about twice the limit; `more`: call again with this `cursor`. Large sets are walked a step per call.
--
-- moves    in_progress -> todos
-- writes   suspects
-- derived  <id>-lock  behind the prefix: somebody works on the item
-- KEYS     todos        set   items to do
--          in_progress  set   items that somebody works on
--          suspects     zset  item in progress by when it was first seen without a lock (ms)
-- ARGV     now_ms?      int   a test's clock; the server's when empty
--          limit        int   how many at most, 1 to 1000
--          cursor?      str   where the walk goes on
--          prefix       str   before the names of locks
-- returns  moved  (moved int, ready int, dead int, next_ms int, cursor str, more bool)  reaped
--          empty  (next_ms int, cursor str, more bool)  no lease is over
local todos, in_progress, suspects = KEYS[1], KEYS[2], KEYS[3]
for _, at in ipairs({1, 2, 3}) do
  if #ARGV < 4 or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 4 arguments, whole numbers where the header says int; nothing was changed')
  end
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local limit, cursor, prefix = tonumber(ARGV[2]), ARGV[3] ~= '' and ARGV[3] or '0', ARGV[4]
redis.call('SCARD', todos)
redis.call('ZCARD', suspects)
local size = redis.call('SCARD', in_progress)
if string.find(ARGV[1] .. cursor, '%D') or not limit or limit < 1 or limit > 1000 then
  return redis.error_reply('ERR limit is 1 to 1000, now_ms and cursor are whole numbers; nothing was changed')
end
local function is_lost(item) return redis.call('EXISTS', prefix .. item .. '-lock') == 0 end

local ripe = redis.call('ZRANGEBYSCORE', suspects, '-inf', now_ms - 2000, 'WITHSCORES', 'LIMIT', 0, limit)
local back, forgotten, noted = {}, {}, {}
for at = 1, #ripe, 2 do
  local item = ripe[at]
  if redis.call('SISMEMBER', in_progress, item) == 0 or not is_lost(item) then
    forgotten[#forgotten + 1] = item
  elseif tonumber(ripe[at + 1]) < now_ms - 60000 then
    noted[#noted + 1], noted[#noted + 2] = now_ms, item
  else
    back[#back + 1], forgotten[#forgotten + 1] = item, item
  end
end
local is_full = #ripe == 2 * limit
local walked = {}
if not is_full and size > 0 then
  local reply = redis.call('SSCAN', in_progress, cursor, 'COUNT', 2 * limit)
  cursor = reply[1]
  for from = 1, #reply[2], 100 do -- a hundred locks at once: mostly all of them are there
    local locks = {}
    for at = from, math.min(from + 99, #reply[2]) do locks[#locks + 1] = prefix .. reply[2][at] .. '-lock' end
    if redis.call('EXISTS', unpack(locks)) < #locks then
      for at = from, from + #locks - 1 do
        if is_lost(reply[2][at]) then walked[#walked + 1] = reply[2][at] end
      end
    end
  end
end

if #forgotten + #noted + #walked > 0 then redis.call('ZREM', suspects, '') end -- frees: a drain may go on over maxmemory
for _, item in ipairs(back) do redis.call('SMOVE', in_progress, todos, item) end
if #forgotten > 0 then redis.call('ZREM', suspects, unpack(forgotten)) end
if #noted > 0 then redis.call('ZADD', suspects, unpack(noted)) end
local is_back, fresh = {}, {}
for _, item in ipairs(back) do is_back[item] = true end
for _, item in ipairs(walked) do
  if not is_back[item] then fresh[#fresh + 1], fresh[#fresh + 2] = now_ms, item end
end
for from = 1, #fresh, 1000 do
  redis.call('ZADD', suspects, 'NX', unpack(fresh, from, math.min(from + 999, #fresh)))
end

local first = redis.call('ZRANGE', suspects, 0, 0, 'WITHSCORES')[2]
local next_ms = first and math.max(0, math.ceil(tonumber(first) + 2000 - now_ms)) or -1
local more = is_full or (cursor ~= '0' and (#walked > 0 or size <= 20000))
if #back == 0 then return {'empty', next_ms, cursor, more and 1 or 0} end
return {'moved', #back, #back, 0, next_ms, cursor, more and 1 or 0}
