-- Revert messages to what they were before a verb moved or rewrote them, if they did not change since.
--
-- `restore` brings back deleted messages. A message returns to its list, behind the same number of messages as before. If the length
-- of the list times the number of rows is above a million, it becomes the next one instead.
--
-- moves    queue -> queue
-- derived  <prefix><queue><sep><step>  the list of another priority
-- KEYS     queue
-- ARGV     queue   str   the name of the queue
--          prefix  str   the prefix of all keys; may be empty
--          sep     str   the separator between the name of a queue and a priority
--          steps   str   the priorities that have a list of their own: 0/3/6/9
--          each    (left str, known bytes, place str, score str, line bytes)  as `records` returned it
-- returns each  moved    (place str)  reverted
--               changed  the message changed since
-- include: keys, columns, options, batch, queue_guard, find_spot, begin_drain, insert_at
local outcomes, jobs, waiting = {}, {}, {}
for at = scalars + 1, #ARGV, columns do
  local from_place, known, place, score, line = unpack(ARGV, at, at + 4)
  local i, before = parse_score(score)
  if from_place ~= 'queue' or place ~= 'queue' or not i or known == '' or line == '' then
    return redis.error_reply('ERR row ' .. (at - scalars - 1) / columns + 1 .. ' does not say what stood where; nothing was changed')
  end
  local spot = find_spot(known, '')
  outcomes[#outcomes + 1] = spot and {'moved', place} or 'changed'
  if spot then
    local from = lengths[spot[1]] - 1 - spot[2] -- the number of messages that run before it now
    local direction = line ~= known and spot[2] < from and 1 or -1 -- the nearer end; a bumped message runs before an equal one
    jobs[#jobs + 1] = {list = i, before = before, line = line, known = known, from_list = spot[1], from = from, direction = direction}
    waiting[#waiting + 1] = jobs[#jobs]
  end
end
if #jobs == 0 then return outcomes end
table.sort(jobs, function(a, b) return a.list == b.list and a.before < b.before or a.list < b.list end)

begin_drain()
for _, job in ipairs(jobs) do
  local rank = job.before
  job.is_reverted = true
  table.sort(waiting, function(a, b) return a.from < b.from end)
  for _, other in ipairs(waiting) do -- messages that will be moved later count as positions, too
    if not other.is_reverted and other.from_list == job.list and other.from <= rank then rank = rank + 1 end
  end
  if job.from_list == job.list and job.from == rank then
    redis.call('LSET', lists[job.list][1], -rank - 1, job.line)
  else
    if job.from_list == job.list and job.from <= rank then rank = rank + 1 end
    insert_at(job.list, rank, job.line)
    local is_last = job.line == job.known and job.from_list == job.list and job.from > rank -- of two equal messages
    redis.call('LREM', lists[job.from_list][1], is_last and 1 or job.direction, job.known)
    for _, other in ipairs(waiting) do
      if other.from_list == job.list and other.from >= rank then other.from = other.from + 1 end
    end
    for _, other in ipairs(waiting) do
      if other ~= job and other.from_list == job.from_list and other.from > job.from then other.from = other.from - 1 end
    end
  end
end
return outcomes
