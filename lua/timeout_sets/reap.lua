-- Reap items in progress whose lock has expired: move them back to todos.
--
-- Workers of the original move an item before they lock it, so an item without a lock may be new. It first becomes a suspect,
-- and is moved if it has no lock two seconds later. A suspect of more than a minute ago counts as new. All reapers share the
-- suspects. A call moves old suspects, or continues a walk over about twice `limit` items in progress. `more` means: call
-- again with this `cursor`. Large sets are walked one step per call.
--
-- moves    in_progress -> todos
-- writes   suspects
-- derived  <id>-lock  behind the prefix: a worker holds the item
-- KEYS     todos in_progress suspects
-- ARGV     now_ms?      int   a test's clock; the server's when empty
--          limit        int   items at most, 1 to 1000
--          cursor?      str   the next step of the walk
--          prefix       str   in front of the names of locks
-- returns  moved  (moved int, ready int, dead int, next_ms int, cursor str, more bool)  reaped
--          empty  (next_ms int, cursor str, more bool)  no lease is over
-- include: keys, integers(now_ms limit cursor), server_time, key_types(todos suspects)
local limit, cursor, prefix = tonumber(ARGV[2]), ARGV[3] ~= '' and ARGV[3] or '0', ARGV[4]
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
  for from = 1, #reply[2], 100 do -- 100 locks at a time, because usually all of them exist
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
