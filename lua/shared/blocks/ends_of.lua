-- Read the first 8 and the last 8 members of a list or a sorted set, or all of up to 16.
--
-- gives    ends_of
local function ends_of(key, command, length, ...) -- the last arguments are those of the command
  local members = redis.call(command, key, 0, length <= 16 and -1 or 7, ...)
  for _, member in ipairs(length > 16 and redis.call(command, key, -8, -1, ...) or {}) do members[#members + 1] = member end
  return members
end
