-- Remove messages from the lists of a queue: each becomes a placeholder, and one command per list removes these together.
--
-- needs    lengths lists HOLE
-- gives    remove_spots  takes spots of {index of the list, index in it}, and the number of messages that were pushed to the right end of
--                        each list since the lengths were read
-- include: begin_drain
local function remove_spots(spots, pushed)
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
