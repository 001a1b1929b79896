-- Kill jobs that nobody runs yet: they are dead, byte for byte, and can be requeued.
--
-- As in Sidekiq's own, the dead of 180 days ago are forgotten, and so are the oldest beyond 9 999. An entry is looked for near both
-- ends of the queue.
--
-- moves    schedule retry queue -> dead
-- forgets  dead
-- KEYS     schedule  zset  jobs by due (s)
--          retry     zset  jobs by due (s)
--          queue     list  jobs, the next one last
--          dead      zset  jobs by when they died (s)
-- ARGV     queue     str   its name
--          now_ms?   int   a test's clock; the server's when empty
--          place?    str   only there; anywhere when empty
--          each      (member bytes)
-- returns each  moved        killed
--               exists       the same bytes are dead already: delete it
--               later        the queue is too long to look for so many at once
--               wrong_place  (place str)  it does not wait
--               gone         it waits there no more
local schedule, retry, queue, dead, place = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[3]
local scalars, columns = 3, 1
for _, key in ipairs({schedule, retry, dead}) do redis.call('ZCARD', key) end
-- block: sidekiq_place, sidekiq_batch, sidekiq_now, sidekiq_listed, sidekiq_take_out
if not ({[''] = 1, schedule = 1, retry = 1, queue = 1, work = 1, lost = 1, dead = 1})[place] then
  return redis.error_reply('ERR there is no place of that name; nothing was changed')
end
local rows = (#ARGV - scalars) / columns
if rows < 1 or rows > 1000 or rows ~= math.floor(rows) then
  return redis.error_reply('ERR it takes 1 to 1000 rows, each with all of its columns; nothing was changed')
end
if ARGV[1] == '' or string.sub(queue, -#ARGV[1] - 6) ~= 'queue:' .. ARGV[1] then
  return redis.error_reply('ERR the list of a queue is queue:NAME, and the first argument is the name; nothing was changed')
end
if #ARGV[2] > 13 or string.find(ARGV[2], '%D') then
  return redis.error_reply('ERR now_ms is a whole number; nothing was changed')
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[2]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local length = redis.call('LLEN', queue)
local reach, budget, taken, count, last = rows == 1 and 50000 or 5000, 200000, {}, {}, length
local function next_spot(member)
  for at = last - 1, last + 1, 2 do -- rows of a page stand side by side
    local from_end = at * 2 < length and at or at - length -- or the server walks there from the other end
    if at >= 0 and at < length and not taken[at] and redis.call('LINDEX', queue, from_end) == member then
      taken[at], last, count[member] = true, at, (count[member] or 0) + 1
      return at
    end
  end
  for _, rank in ipairs({-1, 1}) do
    local most = math.min(reach, budget, length)
    local found = most > 0 and redis.call('LPOS', queue, member, 'RANK', rank, 'COUNT', (count[member] or 0) + 1, 'MAXLEN', most) or {}
    for _, at in ipairs(found) do
      if not taken[at] then
        taken[at], last, count[member] = true, at, (count[member] or 0) + 1
        budget = budget - (rank < 0 and length - at or at)
        return at
      end
    end
    budget = budget - most
    if most == length then return nil, false end
  end
  return nil, length > 2 * reach or budget <= 0
end
local function take_out(spots)
  if #spots == 0 then return end
  table.sort(spots, function(a, b) return a[1] < b[1] end)
  local side = spots[#spots][1] * 2 < length and 1 or -1 -- the outermost by its bytes: where that is denied, nothing was changed
  redis.call('LREM', queue, side, table.remove(spots, side == 1 and 1 or #spots)[2])
  local near, far = 0, 0
  for _, spot in ipairs(spots) do -- the others by their index, since a search for each would cost more
    local at = spot[1] - (side == 1 and 1 or 0)
    redis.call('LSET', queue, at * 2 < length and at or at - length + 1, '')
    if at * 2 < length then near = near + 1 else far = far + 1 end
  end
  if near > 0 then redis.call('LREM', queue, near, '') end
  if far > 0 then redis.call('LREM', queue, -far, '') end
end
-- end
local zsets = {{'schedule', schedule}, {'retry', retry}}
local is_waiting = ({[''] = 1, schedule = 1, retry = 1, queue = 1})[place]
local words, seen, jobs, spots = {}, {}, {}, {}
for at = 4, #ARGV do
  local member, stands = ARGV[at], nil
  for _, zset in ipairs(zsets) do
    if not stands and (place == '' or place == zset[1]) and redis.call('ZSCORE', zset[2], member) then stands = zset[2] end
  end
  local spot, is_unsure
  if not stands and (place == '' or place == 'queue') then spot, is_unsure = next_spot(member) end
  if not is_waiting then
    words[#words + 1] = {'wrong_place', place}
  elseif not stands and not spot then
    words[#words + 1] = is_unsure and 'later' or 'gone'
  elseif seen[member] or redis.call('ZSCORE', dead, member) then
    words[#words + 1] = 'exists'
  else
    words[#words + 1], seen[member] = 'moved', true
    jobs[#jobs + 1], spots[#spots + 1] = {member, stands}, spot and {spot, member} or nil
  end
end
if #jobs == 0 then return words end

redis.call('ZREMRANGEBYRANK', dead, 1, 0) -- frees nothing: a drain may go on over maxmemory
for _, job in ipairs(jobs) do
  redis.call('ZADD', dead, string.format('%.3f', now_ms / 1000), job[1])
  if job[2] then redis.call('ZREM', job[2], job[1]) end
end
take_out(spots)
redis.call('ZREMRANGEBYSCORE', dead, '-inf', string.format('%.3f', now_ms / 1000 - 15552000)) -- sidekiq/api.rb 6.4 and 8, DeadSet
redis.call('ZREMRANGEBYRANK', dead, 0, -10000)
return words
