-- Count the jobs of each queue, or of one queue, in `schedule`, `retry` and `dead`. In a set of more than 200 jobs a
-- sample is read: the first 64 jobs and four ranges of 32 up to the end.
--
-- needs    schedule retry dead queue_of at_ms now_ms
--          only  the name of the one queue, nil for all
-- gives    cards             the sizes of the three sets
--          number            the jobs in the sample, by set and queue
--          has_others        whether the sample has jobs of other queues
--          next_due overdue  the next due time and the number of overdue jobs, by queue
--          shares            estimates the jobs of a queue in the three sets, and whether each number is exact
-- include: instant, queue_of
local cards, sampled, number, has_others = {0, 0, 0}, {0, 0, 0}, {{}, {}, {}}, false
local next_due, overdue = {}, {}
for at, key in ipairs({schedule, retry, dead}) do
  local card = redis.pcall('ZCARD', key)
  cards[at] = type(card) == 'number' and card or 0
  local ranges = {{0, math.min(cards[at], 200) - 1}}
  if cards[at] > 200 then
    ranges[1][2] = 63
    for i = 1, 4 do
      local from = 64 + math.floor((cards[at] - 96) * i / 4)
      ranges[#ranges + 1] = {from, from + 31}
    end
  end
  for _, range in ipairs(cards[at] > 0 and ranges or {}) do
    local jobs = redis.call('ZRANGE', key, range[1], range[2], 'WITHSCORES')
    sampled[at] = sampled[at] + #jobs / 2
    for i = 1, #jobs, 2 do
      local name = queue_of(jobs[i])
      local is_other = only and name ~= only
      has_others = has_others or is_other
      if not is_other then number[at][name] = (number[at][name] or 0) + 1 end
      if at < 3 and not is_other then
        local due_ms = at_ms(jobs[i + 1])
        if due_ms ~= -1 then
          if due_ms <= now_ms then overdue[name] = (overdue[name] or 0) + 1 end
          next_due[name] = math.min(next_due[name] or due_ms, due_ms)
        end
      end
    end
  end
end
local function shares(name)
  local values = {}
  for at = 1, 3 do
    local is_all, count = sampled[at] >= cards[at], number[at][name] or 0
    values[at], values[at + 3] = is_all and count or math.floor(count * cards[at] / sampled[at] + 0.5), is_all and 1 or 0
  end
  return unpack(values)
end
