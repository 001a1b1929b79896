-- Find messages in the lists of a queue.
--
-- needs    rows lists lengths near_index
-- gives    find_spot  returns {index of the list, index in it, message} of an equal message that no row took yet; or nil, and whether a
--                     part of a list was not searched. `step` is the priority of the list to search first
-- include: lengths, near_index
local reach, budget, taken, count, last = rows == 1 and 50000 or 5000, 200000, {}, {}, {}
local function find_in_list(i, member)
  local list, length, taken_here = lists[i][1], lengths[i], taken[i] or {}
  taken[i] = taken_here
  local function take(at)
    taken_here[at], last[i], count[member] = true, at, (count[member] or 0) + 1
    return at
  end
  for _, step in ipairs({-1, 1}) do -- the rows of a page are often neighbours
    local at = (last[i] or length) + step
    if at >= 0 and at < length and not taken_here[at] and redis.call('LINDEX', list, near_index(at, length)) == member then return take(at) end
  end
  for _, rank in ipairs({-1, 1}) do
    local max_entries = math.min(reach, budget, length)
    local found = max_entries > 0 and redis.call('LPOS', list, member, 'RANK', rank, 'COUNT', (count[member] or 0) + 1, 'MAXLEN', max_entries) or {}
    for _, at in ipairs(found) do
      if not taken_here[at] then
        budget = budget - (rank == 1 and at or length - at)
        return take(at)
      end
    end
    budget = budget - max_entries
    if max_entries == length then return nil, false end
  end
  return nil, length > 2 * reach or budget <= 0
end
local function find_spot(member, step)
  local is_unsure = false
  for turn = 1, 2 do
    for i, list in ipairs(lists) do
      if lengths[i] > 0 and (turn == 1) == (list[2] == step) then
        local at, is_partial = find_in_list(i, member)
        if at then return {i, at, member} end
        is_unsure = is_unsure or is_partial
      end
    end
  end
  return nil, is_unsure
end
