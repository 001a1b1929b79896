-- Find entries in the list of a queue.
--
-- needs    queue rows near_index
-- gives    length     of the list, before the script pushes entries
--          next_spot  the index of an equal entry that belongs to no earlier row; or nil, and whether parts of the list were not searched
-- include: near_index
local length = redis.call('LLEN', queue)
local reach, budget, taken, count, last = rows == 1 and 50000 or 5000, 200000, {}, {}, length
local function next_spot(member)
  for _, step in ipairs({-1, 1}) do -- The rows of a page are neighbours in the list.
    local at = last + step
    if at >= 0 and at < length and not taken[at] and redis.call('LINDEX', queue, near_index(at, length)) == member then
      taken[at], last, count[member] = true, at, (count[member] or 0) + 1
      return at
    end
  end
  for _, rank in ipairs({-1, 1}) do
    local most = math.min(reach, budget, length)
    local indexes = most > 0 and redis.call('LPOS', queue, member, 'RANK', rank, 'COUNT', (count[member] or 0) + 1, 'MAXLEN', most) or {}
    for _, at in ipairs(indexes) do
      if not taken[at] then
        taken[at], last, count[member] = true, at, (count[member] or 0) + 1
        budget = budget - (rank == 1 and at or length - at)
        return at
      end
    end
    budget = budget - most
    if most == length then return nil, false end
  end
  return nil, length > 2 * reach or budget <= 0
end
