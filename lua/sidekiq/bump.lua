-- Bump jobs of the queue: they are the next ones.
--
-- An entry is looked for near both ends of the queue.
--
-- moves    queue -> queue
-- KEYS     queue  list  jobs, the next one last
-- ARGV     queue  str   its name
--          each   (member bytes)
-- returns each  moved  bumped
--               later  the queue is too long to look for so many at once
--               gone   it does not wait there any more
local queue = KEYS[1]
local scalars, columns = 1, 1
-- block: sidekiq_batch, sidekiq_listed
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
-- end
local words, members, spots = {}, {}, {}
for at = 2, #ARGV do
  local spot, is_unsure = next_spot(ARGV[at])
  words[#words + 1] = spot and 'moved' or is_unsure and 'later' or 'gone'
  if spot then members[#members + 1], spots[#spots + 1] = ARGV[at], spot end
end
if #spots == 0 then return words end

redis.call('LTRIM', queue, 0, -1) -- frees nothing: a drain may go on over maxmemory
for i = #members, 1, -1 do redis.call('RPUSH', queue, members[i]) end -- the first row is the next job
for _, at in ipairs(spots) do redis.call('LSET', queue, at * 2 < length and at or at - length - #spots, '') end -- what was pushed is equal, and stays
for _, at in ipairs(spots) do redis.call('LREM', queue, at * 2 < length and 1 or -1, '') end
return words
