-- Replace waiting messages by new bytes, and move them to the list of their new priority.
--
-- A message keeps its position in its list. In another list it goes behind the messages that wait there, in the order of the rows. The
-- rows begin with member, new and step.
--
-- needs    scalars columns find_spot find_list begin_drain lists lengths remove_spots near_index
-- gives    replace_messages  returns one word per row, or refuses the batch; `offset` and `pattern` are those of the priority in a row
-- include: find_list, find_spot, remove_spots
local function replace_messages(offset, pattern)
  for at = scalars + 1, #ARGV, columns do
    if not string.find(ARGV[at + offset], pattern) then
      return redis.error_reply('ERR a priority is 0 to 9, and 0 is the highest; nothing was changed')
    end
  end
  local outcomes, spots, leaving, pushed = {}, {}, {}, {}
  for at = scalars + 1, #ARGV, columns do
    local new, priority = ARGV[at + 1], tonumber(ARGV[at + offset])
    local spot, is_unsure = find_spot(ARGV[at], ARGV[at + 2])
    outcomes[#outcomes + 1] = spot and (new == '' and 'raw' or 'moved') or is_unsure and 'later' or 'gone'
    if spot and new ~= '' then
      spot[4], spot[5] = new, priority and find_list(priority) or spot[1]
      spots[#spots + 1] = spot
    end
  end
  if #spots == 0 then return outcomes end

  begin_drain()
  for _, spot in ipairs(spots) do
    local i, at = spot[1], spot[2]
    if spot[5] == i then redis.call('LSET', lists[i][1], near_index(at, lengths[i]), spot[4]) end
  end
  for _, spot in ipairs(spots) do
    local to = spot[5]
    if to ~= spot[1] then
      redis.call('LPUSH', lists[to][1], spot[4])
      leaving[#leaving + 1], pushed[to] = spot, (pushed[to] or 0) + 1
    end
  end
  for i, number in pairs(pushed) do lengths[i] = lengths[i] + number end
  for _, spot in ipairs(leaving) do spot[2] = spot[2] + (pushed[spot[1]] or 0) end -- the pushes moved the indexes of that list
  remove_spots(leaving, {})
  return outcomes
end
