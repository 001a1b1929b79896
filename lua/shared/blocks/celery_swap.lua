-- Celery: how new bytes take the place of messages of the queue. In the same list they keep their places; else they go behind those that
-- wait in the other one, in the order of the rows.
-- needs    lists lengths free_room take_out
-- gives    swap  of {index of the list, index in it, message, the new one, index of its list}
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
