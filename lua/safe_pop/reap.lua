-- Reap expired leases: jobs go to the end of the list where they are popped next, because they have waited before.
--
-- Without this script, a worker runs such a job again when it pops the entry, which can take long: the entry is behind
-- all jobs that waited when it was handed out. A call reads 4000 entries from `cursor` on, counted from the pop end;
-- the returned `cursor` is 0 after the last entry. An entry whose id is marked as done is dropped with its mark, as a
-- worker would do. `next_ms` is the time after which the next call can find a job.
--
-- moves    expired -> ready |
-- writes   done
-- KEYS     entries done
-- ARGV     now_ms?    int   a test's clock; the server's when empty
--          timeout_s  str   seconds after which a lease expires
--          limit      int   how many at most, 1 to 1000
--          cursor?    int   where to continue; at the pop end when empty
-- returns  moved  (moved int, ready int, dead int, next_ms int, cursor int)  reaped
--          empty  (next_ms int, cursor int)  no expired lease among the entries that were read
-- include: keys, integers(now_ms timeout_s limit cursor), server_time, time_of
local timeout_s, limit, cursor = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]) or 0
local length, marks = redis.call('LLEN', entries), redis.call('SCARD', done)
if not timeout_s or string.find(ARGV[1] .. ARGV[3] .. ARGV[4], '%D') or #ARGV[1] > 13 or #ARGV[4] > 13
  or not limit or limit < 1 or limit > 1000 then
  return redis.error_reply('ERR limit is 1 to 1000, cursor and now_ms are whole numbers; nothing was changed')
end
if cursor >= length then cursor = 0 end
local from = math.max(0, length - cursor - 4000)
local block, at, old, first = redis.call('LRANGE', entries, from, length - cursor - 1), {}, nil, nil
local back, finished, i = {}, {}, #block -- A mark removes only one entry.
while i > 0 and #at < limit do
  local entry = block[i]
  local time, bar = time_of(entry)
  if time then
    local id = string.sub(entry, 1, bar - 1)
    if math.floor(now_ms / 1000) - time <= timeout_s then
      first = math.min(first or time, time)
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

redis.call('LTRIM', entries, 0, -1) -- removes nothing, but lets the drain continue over maxmemory
if #back > 0 then redis.call('RPUSH', entries, unpack(back)) end
for _, index in ipairs(at) do redis.call('LSET', entries, index, old) end -- Equal entries are removed in one pass.
redis.call('LREM', entries, from + #block / 2 < length / 2 and #at or -#at, old)
if #finished > 0 then redis.call('SREM', done, unpack(finished)) end
return {'moved', #at, #back, 0, next_ms, cursor}
