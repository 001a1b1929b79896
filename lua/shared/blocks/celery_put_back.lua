-- Celery: how messages come back to where they stood. A score is the index of the list × 2^40, and how many run before it there.
-- needs    lists lengths rows
-- gives    stood_at  the index of the list and how many run before, of a score; nil for what is none
--          put_back  a message, behind so many
local function stood_at(score)
  local number = string.find(score, '^%d+$') and #score < 16 and tonumber(score)
  local i = number and math.floor(number / 2 ^ 40)
  if i and lists[i] then return i, number - i * 2 ^ 40 end
end
local function put_back(i, before, message)
  local list = lists[i][1]
  local pivot = before > 0 and redis.call('LINDEX', list, -before)
  if before > 0 and not pivot then
    redis.call('LPUSH', list, message)
  elseif pivot and lengths[i] * rows <= 1000000 then -- the pivot is searched for
    redis.call('LINSERT', list, 'BEFORE', pivot, message)
  else
    redis.call('RPUSH', list, message)
  end
end
