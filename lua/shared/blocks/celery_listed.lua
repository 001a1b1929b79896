-- Celery: where messages stand in the lists of a queue.
-- needs    lists lengths rows
-- gives    next_spot  {index of the list, index in it, message} of an equal message that no row has taken yet; nil without one, and
--                     whether some of a list was not looked at. `step` says in which list it was seen
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
