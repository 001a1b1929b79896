-- Sidekiq: what `schedule`, `retry` and `dead` hold of each queue, by its name, or of `only` one. Of a set of more than 200 the first 64
-- and four stretches of 32 are looked at, up to its end.
-- needs    only now_ms schedule retry dead at_ms queue_of
-- gives    cards has_others number shares next_due overdue
local cards, looked, number, has_others = {0, 0, 0}, {0, 0, 0}, {{}, {}, {}}, false
local next_due, overdue = {}, {}
for at, key in ipairs({schedule, retry, dead}) do
  local card = redis.pcall('ZCARD', key)
  cards[at] = type(card) == 'number' and card or 0
  local stretches = {{0, math.min(cards[at], 200) - 1}}
  if cards[at] > 200 then
    stretches[1][2] = 63
    for i = 1, 4 do
      local from = 64 + math.floor((cards[at] - 96) * i / 4)
      stretches[#stretches + 1] = {from, from + 31}
    end
  end
  for _, stretch in ipairs(cards[at] > 0 and stretches or {}) do
    local found = redis.call('ZRANGE', key, stretch[1], stretch[2], 'WITHSCORES')
    looked[at] = looked[at] + #found / 2
    for i = 1, #found, 2 do
      local name = queue_of(found[i])
      local is_other = only and name ~= only
      has_others = has_others or is_other
      if not is_other then number[at][name] = (number[at][name] or 0) + 1 end
      if at < 3 and not is_other then
        local due_ms = at_ms(found[i + 1])
        if due_ms >= 0 and due_ms <= now_ms then overdue[name] = (overdue[name] or 0) + 1 end
        if due_ms >= 0 and due_ms < (next_due[name] or math.huge) then next_due[name] = due_ms end
      end
    end
  end
end
local function shares(name) -- how many there are by the share of the sample, and whether that is all, of each of the three
  local found = {}
  for at = 1, 3 do
    local is_all, met = looked[at] >= cards[at], number[at][name] or 0
    found[at], found[at + 3] = is_all and met or math.floor(met * cards[at] / looked[at] + 0.5), is_all and 1 or 0
  end
  return unpack(found)
end
