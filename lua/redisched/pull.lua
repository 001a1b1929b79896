-- Pull due jobs out of the queue, those that are due for longest first: no lease, no second try.
--
-- Ids without a body are passed over and stay where they are. A body that a worker with an earlier lease still needs is kept.
--
-- moves    due ->
-- writes   jobs expiries
-- KEYS     jobs                         hash  body by id
--          queued (queued due)          zset  id by due
--          reserved (reserved expired)  zset  id by lease deadline
--          expiries                     zset  id by leases that rqtui saw expire
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          limit    int  how many at most, 1 to 1000
-- returns  moved  (now_ms int) rows (id bytes, score bytes, bytes int, body bytes, has_body bool, expiries int)  pulled
--          empty  (next_ms int)  nothing is due
local jobs, queued, reserved, expiries = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
for _, at in ipairs({1, 2}) do
  if #ARGV < 2 or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 2 arguments, whole numbers where the header says int; nothing was changed')
  end
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local limit, MS = tonumber(ARGV[2]), '100000000000'
redis.call('HLEN', jobs)
for _, key in ipairs({queued, reserved, expiries}) do redis.call('ZCARD', key) end
if #ARGV[1] > 13 or string.find(ARGV[1], '%D') or not limit or limit < 1 or limit > 1000 then
  return redis.error_reply('ERR limit is 1 to 1000, now_ms a whole number; nothing was changed')
end
local now, now_s = string.format('%.0f', now_ms), string.format('%.3f', now_ms / 1000)
local function due(most) -- of both units, those that are due for longest first
  local found, both = {}, false
  for _, range in ipairs({{'-inf', now_s, 1000}, {MS, now, 1}}) do
    local reply = redis.call('ZRANGEBYSCORE', queued, range[1], range[2], 'WITHSCORES', 'LIMIT', 0, most)
    both = #found > 0 and #reply > 0
    for i = 1, #reply, 2 do found[#found + 1] = {reply[i], tonumber(reply[i + 1]) * range[3], #found} end
  end
  if not both then return found end -- in order as it came
  table.sort(found, function(a, b) return a[2] < b[2] or (a[2] == b[2] and a[3] < b[3]) end)
  return found
end
local rows, ids, bytes = {}, {}, 0
for _, most in ipairs({limit + 50, 10000}) do -- further only where nothing but ids without a body stands in front
  local found = due(most)
  for _, job in ipairs(found) do
    local id, body = job[1], redis.call('HGET', jobs, job[1])
    if body then
      ids[#ids + 1], bytes = id, bytes + #body
      rows[#rows + 1] = {id, '', #body, body, 1, tonumber(redis.call('ZSCORE', expiries, id) or 0)}
    end
    if #rows == limit or bytes > 67108864 then break end
  end
  if #rows > 0 or #found < most then break end
end
if #rows == 0 then
  local soonest = -1
  for _, range in ipairs({{'(' .. now_s, '(' .. MS, 1000}, {'(' .. now, '(9e15', 1}}) do
    local score = redis.call('ZRANGEBYSCORE', queued, range[1], range[2], 'WITHSCORES', 'LIMIT', 0, 1)[2]
    local wait = score and math.ceil(tonumber(score) * range[3] - now_ms)
    if wait and (soonest < 0 or wait < soonest) then soonest = wait end
  end
  return {'empty', soonest}
end

local held, free = redis.call('ZMSCORE', reserved, unpack(ids)), {}
for i, id in ipairs(ids) do
  if not held[i] then free[#free + 1] = id end
end
redis.call('ZREM', queued, unpack(ids))
if #free > 0 then redis.call('HDEL', jobs, unpack(free)) end
redis.pcall('ZREM', expiries, unpack(ids))
return {'moved', now_ms, rows}
