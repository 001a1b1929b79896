-- Revert jobs to what they were before a verb moved or rewrote them, where nothing changed them since.
--
-- What was deleted comes back by `restore`. A job of the queue comes back to so many that run before it.
--
-- moves    schedule retry queue dead -> schedule | retry | queue | dead
-- writes   queues
-- KEYS     schedule  zset  jobs by due (s)
--          retry     zset  jobs by due (s)
--          queue     list  jobs, the next one last
--          dead      zset  jobs by when they died (s)
--          queues    set   names of all queues
-- ARGV     queue     str   its name
--          each      (left str, known bytes, place str, score str, line bytes)  as records tells of it
-- returns each  moved    (place str)  reverted
--               changed  it changed since
local schedule, retry, queue, dead, queues = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local zsets = {schedule = schedule, retry = retry, dead = dead}
local scalars, columns = 1, 5
for _, key in pairs(zsets) do redis.call('ZCARD', key) end
redis.call('SCARD', queues)
-- block: sidekiq_batch, sidekiq_listed, sidekiq_take_out, sidekiq_put_back
local rows = (#ARGV - scalars) / columns
if rows < 1 or rows > 1000 or rows ~= math.floor(rows) then
  return redis.error_reply('ERR it takes 1 to 1000 rows, each with all of its columns; nothing was changed')
end
if ARGV[1] == '' or string.sub(queue, -#ARGV[1] - 6) ~= 'queue:' .. ARGV[1] then
  return redis.error_reply('ERR the list of a queue is queue:NAME, and the first argument is the name; nothing was changed')
end
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
local function fault_of(place, score)
  if not zsets[place] and place ~= 'queue' then return 'there is no place of that name' end
  local number = string.find(score, '^[%d.e+-]+$') and tonumber(score)
  if not number or place == 'queue' and (number < 0 or number ~= math.floor(number)) then return 'the score is a number' end
end
local function put_back(jobs)
  table.sort(jobs, function(a, b) return tonumber(a[2]) < tonumber(b[2]) end) -- each counts on those that run before it
  for _, job in ipairs(jobs) do
    local key, before = zsets[job[1]], tonumber(job[2])
    local pivot = not key and before > 0 and redis.call('LINDEX', queue, -before)
    if key then
      redis.call('ZADD', key, job[2], job[3])
    elseif before > 0 and not pivot then
      redis.call('LPUSH', queue, job[3])
    elseif pivot and redis.call('LLEN', queue) * rows <= 1000000 then -- the pivot is searched for
      redis.call('LINSERT', queue, 'BEFORE', pivot, job[3])
    else
      redis.call('RPUSH', queue, job[3])
    end
  end
end
-- end
for at = 2, #ARGV, columns do
  local left, known, place, score, line = unpack(ARGV, at, at + 4)
  local fault = fault_of(place, score) or fault_of(left, '0') or (known == '' or line == '') and 'a job has bytes'
  if fault then return redis.error_reply('ERR row ' .. (at + 3) / columns .. ': ' .. fault .. '; nothing was changed') end
end
local words, back, inside, leaving, spots, seen = {}, {}, {}, {}, {}, {}
for at = 2, #ARGV, columns do
  local left, known, place, score, line = unpack(ARGV, at, at + 4)
  local from, to, stays = zsets[left], zsets[place], left == place and known == line
  local stands = from and not seen[left .. known] and redis.call('ZSCORE', from, known)
  if to and not stays and redis.call('ZSCORE', to, line) then stands = nil elseif not from then stands = next_spot(known) end
  words[#words + 1] = stands and {'moved', place} or 'changed'
  if stands then
    if from then seen[left .. known] = true end
    if not from and not to then inside[#inside + 1] = {place, score, line, known} else back[#back + 1] = {place, score, line} end
    if from and not stays then leaving[#leaving + 1] = {from, known} end
    if to and not from then spots[#spots + 1] = {stands, known} end
  end
end
if #back + #inside == 0 then return words end
table.sort(inside, function(a, b) return tonumber(a[2]) < tonumber(b[2]) end)

redis.call('ZREMRANGEBYRANK', dead, 1, 0) -- frees nothing: a drain may go on over maxmemory
redis.call('SADD', queues, ARGV[1])
put_back(back)
for _, job in ipairs(leaving) do redis.call('ZREM', job[1], job[2]) end
take_out(spots)
for i, job in ipairs(inside) do -- those that still stand nearer to their turn count, too
  put_back({{'queue', tostring(tonumber(job[2]) + #inside - i + 1), job[3]}})
  redis.call('LREM', queue, -1, job[4])
end
return words
