-- Celery: how messages leave the lists of a queue: they become holes, which are removed together.
-- needs    lists lengths HOLE
-- gives    take_out  of {index of the list, index in it}; `pushed`: how many were pushed to the right end of each list since
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
