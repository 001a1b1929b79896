-- Lease due jobs to a worker, those that are due for longest first.
--
-- The end of the lease is its token; a fraction that no other program writes makes it unique. It is in the unit of the
-- option, else in that of the job's own due time. Ids without a body are passed over and stay where they are.
--
-- moves    due -> reserved
-- KEYS     jobs                         hash  body by id
--          queued (queued due)          zset  id by due
--          reserved (reserved expired)  zset  id by lease deadline
--          expiries                     zset  id by leases that rqtui saw expire
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          limit    int  how many at most, 1 to 1000
--          worker?  str  who asks, at most 200 bytes; this system has no place to keep it
--          ttr_ms?  int  how long the lease lasts; a minute when empty
--          unit     str  ms, s or auto
-- returns  moved  (now_ms int) rows (id bytes, score bytes, bytes int, body bytes, has_body bool, expiries int)  leased
--          empty  (next_ms int)  nothing is due
local jobs, queued, reserved, expiries = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
for _, at in ipairs({1, 2, 4}) do
  if #ARGV < 5 or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 5 arguments, whole numbers where the header says int; nothing was changed')
  end
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local limit, worker, ttr_ms, unit, MS = tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]) or 60000, ARGV[5], '100000000000'
redis.call('HLEN', jobs)
for _, key in ipairs({queued, reserved, expiries}) do redis.call('ZCARD', key) end
if #ARGV[1] > 13 or string.find(ARGV[1], '%D') or not limit or limit < 1 or limit > 1000 or #worker > 200
  or ttr_ms < 1 or ttr_ms > 31536000000 or not ({ms = 1, s = 1, auto = 1})[unit] then
  return redis.error_reply('ERR limit is 1 to 1000, ttr_ms at least 1 and at most a year, the unit ms, s or auto; nothing was changed')
end
local now, now_s = string.format('%.0f', now_ms), string.format('%.3f', now_ms / 1000)
local function due(most) -- of both units, those that are due for longest first
  local found, both = {}, false
  for _, range in ipairs({{'-inf', now_s, 1000}, {MS, now, 1}}) do
    local reply = redis.call('ZRANGEBYSCORE', queued, range[1], range[2], 'WITHSCORES', 'LIMIT', 0, most)
    both = #found > 0 and #reply > 0
    for i = 1, #reply, 2 do found[#found + 1] = {reply[i], tonumber(reply[i + 1]), tonumber(reply[i + 1]) * range[3], #found} end
  end
  if not both then return found end -- in order as it came
  table.sort(found, function(a, b) return a[3] < b[3] or (a[3] == b[3] and a[4] < b[4]) end)
  return found
end
-- block: is_ms
local has_ms = redis.call('ZCOUNT', queued, MS, '(9e15') + redis.call('ZCOUNT', reserved, MS, '(9e15') > 0
local function is_ms(score) -- a score below 10^8, or beyond all time, tells no unit: then that of the others
  if unit ~= 'auto' then return unit == 'ms' end
  if score < 1e8 or score > 9e15 then return has_ms end
  return score >= 1e11
end
-- end
local deadline_ms = now_ms + ttr_ms + (clock[2] % 999 + 1) / 1000
local rows, ids, leases, bytes = {}, {}, {}, 0
for _, most in ipairs({limit + 50, 10000}) do -- further only where nothing but ids without a body stands in front
  local found = due(most)
  for _, job in ipairs(found) do
    local id, body = job[1], redis.call('HGET', jobs, job[1])
    if body then
      local score = string.format('%.17g', is_ms(job[2]) and deadline_ms or deadline_ms / 1000)
      ids[#ids + 1], leases[#leases + 1], leases[#leases + 2] = id, score, id
      rows[#rows + 1], bytes = {id, score, #body, body, 1}, bytes + #body
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
local known = redis.call('ZMSCORE', expiries, unpack(ids))
for i, row in ipairs(rows) do row[6] = tonumber(known[i] or 0) end

redis.call('ZREMRANGEBYRANK', queued, 1, 0) -- frees nothing: a drain may go on over maxmemory
redis.call('ZADD', reserved, unpack(leases))
redis.call('ZREM', queued, unpack(ids))
return {'moved', now_ms, rows}
