-- Reap expired leases: jobs go to the end where they are popped next, since they waited there before.
--
-- Without this, the next worker that pops such an entry hands it out again; that may be late, for it stands behind all that waited
-- when it was handed out. Looks at 4000 entries from `cursor` on, counted from the pop end; `cursor` is 0 when it came
-- through. One whose id is marked done is dropped with its mark, as whoever pops it would. `next_ms` is the time until it is
-- worth to call again.
--
-- moves    expired -> ready |
-- writes   done
-- KEYS     entries (ready in_progress expired)  list  id, or id|unix seconds once handed out
--          done       set   ids of finished jobs whose entry still stands
-- ARGV     now_ms?    int   a test's clock; the server's when empty
--          timeout_s  str   seconds after which an entry that was handed out is late
--          limit      int   how many at most, 1 to 1000
--          cursor?    int   where to go on; at the pop end when empty
-- returns  moved  (moved int, ready int, dead int, next_ms int, cursor int)  reaped
--          empty  (next_ms int, cursor int)  no lease is over, so far as was looked
local entries, done = KEYS[1], KEYS[2]
for _, at in ipairs({1, 2, 3, 4}) do
  if #ARGV < 4 or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 4 arguments, whole numbers where the header says int; nothing was changed')
  end
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local timeout_s, limit, cursor = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]) or 0
local length, marks = redis.call('LLEN', entries), redis.call('SCARD', done)
if not timeout_s or string.find(ARGV[1] .. ARGV[3] .. ARGV[4], '%D') or #ARGV[1] > 13 or #ARGV[4] > 13
  or not limit or limit < 1 or limit > 1000 then
  return redis.error_reply('ERR limit is 1 to 1000, cursor and now_ms are whole numbers; nothing was changed')
end
if cursor >= length then cursor = 0 end
local from = math.max(0, length - cursor - 4000)
local block, at, old, first = redis.call('LRANGE', entries, from, length - cursor - 1), {}, nil, nil
local back, finished, i = {}, {}, #block -- a mark is good for one entry
while i > 0 and #at < limit do
  local entry, bar = block[i], string.find(block[i], '|', 1, true)
  local time = bar and bar > 1 and string.match(entry, '^%d+$', bar + 1)
  if time and #time < 12 then
    local id = string.sub(entry, 1, bar - 1)
    if math.floor(now_ms / 1000) - time <= timeout_s then
      if not first or tonumber(time) < first then first = tonumber(time) end
    else
      at[#at + 1], old = from + i - 1, old or entry
      if marks > 0 and not finished[id] and redis.call('SISMEMBER', done, id) == 1 then
        finished[#finished + 1], finished[id] = id, true
      else
        table.insert(back, 1, id)
      end
    end
  end
  i = i - 1
end
cursor = cursor + #block - i - #finished
if cursor >= length - #finished then cursor = 0 end
local next_ms = cursor > 0 and 50 or first and math.max(1, (first + timeout_s + 1) * 1000 - now_ms) or -1
if #at == 0 then return {'empty', next_ms, cursor} end

redis.call('LTRIM', entries, 0, -1) -- frees nothing: a drain may go on over maxmemory
if #back > 0 then redis.call('RPUSH', entries, unpack(back)) end
for _, index in ipairs(at) do redis.call('LSET', entries, index, old) end -- made equal, they go in one pass
redis.call('LREM', entries, from + #block / 2 < length / 2 and #at or -#at, old)
if #finished > 0 then redis.call('SREM', done, unpack(finished)) end
return {'moved', #at, #back, 0, next_ms, cursor}
