-- Read the time at which an entry was handed out, in seconds; nil if it is ready or cannot be decoded. The second value
-- is the index of its `|`.
--
-- gives    time_of
local function time_of(entry)
  local bar = string.find(entry, '|', 1, true)
  local time = bar and bar > 1 and string.match(entry, '^%d+$', bar + 1)
  return time and #time < 12 and tonumber(time) or nil, bar
end
