-- Delete jobs that nobody runs.
--
-- An entry is looked for near both ends of the queue.
--
-- moves    schedule retry queue dead ->
-- KEYS     schedule  zset  jobs by due (s)
--          retry     zset  jobs by due (s)
--          queue     list  jobs, the next one last
--          dead      zset  jobs by when they died (s)
-- ARGV     queue     str   its name
--          place?    str   only there; anywhere when empty
--          each      (member bytes)
-- returns each  moved        deleted
--               later        the queue is too long to look for so many at once
--               wrong_place  (place str)  a process runs it, or died with it: stop or release it
--               gone         it stands there no more
local schedule, retry, queue, dead, place = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[2]
local scalars, columns = 2, 1
for _, key in ipairs({schedule, retry, dead}) do redis.call('ZCARD', key) end
-- block: sidekiq_place, sidekiq_batch, sidekiq_listed, sidekiq_take_out
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
local zsets = {{'schedule', schedule}, {'retry', retry}, {'dead', dead}}
local words, seen, jobs, spots = {}, {}, {}, {}
for at = 3, #ARGV do
  local member, stands = ARGV[at], nil
  for _, zset in ipairs(zsets) do
    local fits = not stands and (place == '' or place == zset[1]) and not seen[zset[1] .. member]
    if fits and redis.call('ZSCORE', zset[2], member) then stands, seen[zset[1] .. member] = zset[2], true end
  end
  local spot, is_unsure
  if not stands and (place == '' or place == 'queue') then spot, is_unsure = next_spot(member) end
  if place == 'work' or place == 'lost' then
    words[#words + 1] = {'wrong_place', place}
  elseif stands then
    words[#words + 1], jobs[#jobs + 1] = 'moved', {stands, member}
  elseif spot then
    words[#words + 1], spots[#spots + 1] = 'moved', {spot, member}
  else
    words[#words + 1] = is_unsure and 'later' or 'gone'
  end
end
if #jobs + #spots == 0 then return words end

redis.call('LTRIM', queue, 0, -1) -- frees nothing: a drain may go on over maxmemory
for _, job in ipairs(jobs) do redis.call('ZREM', job[1], job[2]) end
take_out(spots)
return words
