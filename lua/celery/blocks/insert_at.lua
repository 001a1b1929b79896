-- Insert messages at the positions that `records` returned.
--
-- A score is the index of the list × 2^40 plus the number of messages that run before the message.
--
-- needs    lists lengths rows
-- gives    parse_score  returns the index of the list and the number of messages before; nil for an invalid score
--          insert_at    inserts a message behind `before` others
-- include: lengths
local function parse_score(score)
  local number = string.find(score, '^%d+$') and #score < 16 and tonumber(score)
  local i = number and math.floor(number / 2 ^ 40)
  if i and lists[i] then return i, number - i * 2 ^ 40 end
end
local function insert_at(i, before, message)
  local list = lists[i][1]
  local pivot = before > 0 and redis.call('LINDEX', list, -before)
  if before > 0 and not pivot then
    redis.call('LPUSH', list, message)
  elseif pivot and lengths[i] * rows <= 1000000 then -- LINSERT searches for the pivot
    redis.call('LINSERT', list, 'BEFORE', pivot, message)
  else
    redis.call('RPUSH', list, message)
  end
end
