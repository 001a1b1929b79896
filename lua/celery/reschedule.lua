-- Reschedule messages of the queue: give them another ETA, or none; another priority, too.
--
-- A message keeps its place in the list: the worker that takes it holds it until its ETA. With another priority it goes behind those that
-- wait in the list of that. One that a worker has taken already cannot be rescheduled. Bytes with the new ETA and priority take the place of
-- those that were seen; `delay_ms` and `due_ms` are for who writes them.
--
-- moves    queue -> queue
-- derived  <queue><sep><step>  the list of another priority
-- KEYS     queue   list  messages of priority 0, the last one is next
-- ARGV     queue   str   its name
--          prefix  str   before all keys, or nothing
--          sep     str   what parts a queue from its priority
--          steps   str   the priorities that have a list: 0/3/6/9
--          each    (member bytes, new? bytes, step? str, delay_ms? int, due_ms? int, priority? int)  the priority of the list where it was
--                  seen, and the new one
-- returns each  moved  rescheduled
--               raw    it is no message of Celery, so that its ETA cannot be written
--               later  the queue is too long to look for so many at once
--               gone   it does not wait there any more
local queue = KEYS[1]
local scalars, columns = 4, 6
-- block: celery_options, celery_batch, celery_of_queue, celery_lengths, celery_list_of, celery_listed, celery_free_room, celery_take_out, celery_swap
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
local function list_of(priority)
  local found = #lists
  for i, list in ipairs(lists) do
    if tonumber(list[2]) <= priority then found = i end
  end
  return found
end
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
local function take_out(spots, pushed)
  local holes = {}
  for _, spot in ipairs(spots) do
    local i, at = spot[1], spot[2]
    local is_near = at * 2 < lengths[i]
    redis.call('LSET', lists[i][1], is_near and at or at - lengths[i] - (pushed[i] or 0), HOLE)
    holes[i] = holes[i] or {0, 0}
    holes[i][is_near and 1 or 2] = holes[i][is_near and 1 or 2] + 1
  end
  for i, number in pairs(holes) do
    if number[1] > 0 then redis.call('LREM', lists[i][1], number[1], HOLE) end
    if number[2] > 0 then redis.call('LREM', lists[i][1], -number[2], HOLE) end
  end
end
local function swap(spots)
  local leaving, pushed = {}, {}
  if #spots > 0 then free_room() end
  for _, spot in ipairs(spots) do
    local i, at = spot[1], spot[2]
    if spot[5] == i then redis.call('LSET', lists[i][1], at * 2 < lengths[i] and at or at - lengths[i], spot[4]) end
  end
  for _, spot in ipairs(spots) do
    local to = spot[5]
    if to ~= spot[1] then
      redis.call('LPUSH', lists[to][1], spot[4])
      leaving[#leaving + 1], pushed[to] = spot, (pushed[to] or 0) + 1
    end
  end
  for i, number in pairs(pushed) do lengths[i] = lengths[i] + number end
  for _, spot in ipairs(leaving) do spot[2] = spot[2] + (pushed[spot[1]] or 0) end -- what came to the head moved it on
  take_out(leaving, {})
end
-- end
for at = scalars + 1, #ARGV, columns do
  if not string.find(ARGV[at + 5], '^%d?$') then
    return redis.error_reply('ERR a priority is 0 to 9, and 0 is the highest; nothing was changed')
  end
end
local words, spots = {}, {}
for at = scalars + 1, #ARGV, columns do
  local new, priority = ARGV[at + 1], tonumber(ARGV[at + 5])
  local spot, is_unsure = next_spot(ARGV[at], ARGV[at + 2])
  words[#words + 1] = spot and (new == '' and 'raw' or 'moved') or is_unsure and 'later' or 'gone'
  if spot and new ~= '' then
    spot[4], spot[5] = new, priority and list_of(priority) or spot[1]
    spots[#spots + 1] = spot
  end
end

swap(spots)
return words
