-- Revert messages to what they were before a verb moved or rewrote them, where nothing changed them since.
--
-- What was deleted comes back by `restore`. A message comes back to its list, behind so many that run before it; where the
-- entries of that times the rows are more than a million, it is the next one.
--
-- moves    queue -> queue
-- derived  <queue><sep><step>  the list of another priority
-- KEYS     queue   list  messages of priority 0, the last one is next
-- ARGV     queue   str   its name
--          prefix  str   before all keys, or nothing
--          sep     str   what parts a queue from its priority
--          steps   str   the priorities that have a list: 0/3/6/9
--          each    (left str, known bytes, place str, score str, line bytes)  as records tells of it
-- returns each  moved    (place str)  reverted
--               changed  it changed since
local queue = KEYS[1]
local scalars, columns = 4, 5
-- block: celery_options, celery_batch, celery_of_queue, celery_lengths, celery_listed, celery_free_room, celery_put_back
if #ARGV < 4 or not string.find(ARGV[4], '^%d+[%d/]*$') then
  return redis.error_reply('ERR it takes a prefix, which may be empty, a separator, and priorities as 0/3/6/9; nothing was changed')
end
local prefix, lists = ARGV[2], {}
local name = string.sub(queue, #prefix + 1)
for step in string.gmatch(ARGV[4], '%d+') do -- kombu/transport/redis.py 5.7, `_q_for_pri`
  lists[#lists + 1] = {tonumber(step) == 0 and queue or queue .. ARGV[3] .. step, step}
end
local rows = (#ARGV - scalars) / columns
if rows < 1 or rows > 1000 or rows ~= math.floor(rows) then
  return redis.error_reply('ERR it takes 1 to 1000 rows, each with all of its columns; nothing was changed')
end
if ARGV[1] == '' or ARGV[1] ~= name then
  return redis.error_reply('ERR the list of a queue is the prefix and its name, which is the first argument; nothing was changed')
end
local lengths = {}
for i, list in ipairs(lists) do lengths[i] = redis.call('LLEN', list[1]) end
local reach, budget, taken, count, last = rows == 1 and 50000 or 5000, 200000, {}, {}, {}
local function spot_in(i, member)
  local list, length, own = lists[i][1], lengths[i], taken[i] or {}
  taken[i] = own
  local function take(at)
    own[at], last[i], count[member] = true, at, (count[member] or 0) + 1
    return at
  end
  for at = (last[i] or length) - 1, (last[i] or length) + 1, 2 do -- rows of a page stand side by side
    local from_end = at * 2 < length and at or at - length -- or the server walks there from the other end
    if at >= 0 and at < length and not own[at] and redis.call('LINDEX', list, from_end) == member then return take(at) end
  end
  for _, rank in ipairs({-1, 1}) do
    local part = math.min(reach, budget, length)
    local found = part > 0 and redis.call('LPOS', list, member, 'RANK', rank, 'COUNT', (count[member] or 0) + 1, 'MAXLEN', part) or {}
    for _, at in ipairs(found) do
      if not own[at] then
        budget = budget - (rank < 0 and length - at or at)
        return take(at)
      end
    end
    budget = budget - part
    if part == length then return nil, false end
  end
  return nil, length > 2 * reach or budget <= 0
end
local function next_spot(member, step)
  local is_unsure = false
  for turn = 1, 2 do
    for i, list in ipairs(lists) do
      if lengths[i] > 0 and (turn == 1) == (list[2] == step) then
        local at, may_stand = spot_in(i, member)
        if at then return {i, at, member} end
        is_unsure = is_unsure or may_stand
      end
    end
  end
  return nil, is_unsure
end
local HOLE = '\1a hole'
local function free_room()
  local shortest = 1
  for i in ipairs(lists) do
    if lengths[i] < lengths[shortest] then shortest = i end
  end
  redis.call('LREM', lists[shortest][1], 1, HOLE)
end
local function stood_at(score)
  local number = string.find(score, '^%d+$') and #score < 16 and tonumber(score)
  local i = number and math.floor(number / 2 ^ 40)
  if i and lists[i] then return i, number - i * 2 ^ 40 end
end
local function put_back(i, before, message)
  local list = lists[i][1]
  local pivot = before > 0 and redis.call('LINDEX', list, -before)
  if before > 0 and not pivot then
    redis.call('LPUSH', list, message)
  elseif pivot and lengths[i] * rows <= 1000000 then -- the pivot is searched for
    redis.call('LINSERT', list, 'BEFORE', pivot, message)
  else
    redis.call('RPUSH', list, message)
  end
end
-- end
local words, back, standing = {}, {}, {}
for at = scalars + 1, #ARGV, columns do
  local left, known, place, score, line = unpack(ARGV, at, at + 4)
  local i, before = stood_at(score)
  if left ~= 'queue' or place ~= 'queue' or not i or known == '' or line == '' then
    return redis.error_reply('ERR row ' .. (at - scalars - 1) / columns + 1 .. ' does not say what stood where; nothing was changed')
  end
  local spot = next_spot(known, '')
  words[#words + 1] = spot and {'moved', place} or 'changed'
  if spot then
    local from = lengths[spot[1]] - 1 - spot[2] -- how many run before it now
    local near = line ~= known and spot[2] < from and 1 or -1 -- the nearer one; of equal bytes the one that runs next is the bumped one
    back[#back + 1] = {list = i, before = before, line = line, known = known, from_list = spot[1], from = from, near = near}
    standing[#standing + 1] = back[#back]
  end
end
if #back == 0 then return words end
table.sort(back, function(a, b) return a.list == b.list and a.before < b.before or a.list < b.list end)

free_room()
for _, job in ipairs(back) do
  local rank = job.before
  job.is_back = true
  table.sort(standing, function(a, b) return a.from < b.from end)
  for _, other in ipairs(standing) do -- those that are still to go back stand in its way
    if not other.is_back and other.from_list == job.list and other.from <= rank then rank = rank + 1 end
  end
  if job.from_list == job.list and job.from == rank then
    redis.call('LSET', lists[job.list][1], -rank - 1, job.line)
  else
    if job.from_list == job.list and job.from <= rank then rank = rank + 1 end
    put_back(job.list, rank, job.line)
    redis.call('LREM', lists[job.from_list][1], job.near, job.known)
    for _, other in ipairs(standing) do
      if other.from_list == job.list and other.from >= rank then other.from = other.from + 1 end
    end
    for _, other in ipairs(standing) do
      if other ~= job and other.from_list == job.from_list and other.from > job.from then other.from = other.from - 1 end
    end
  end
end
return words
