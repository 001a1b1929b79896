-- Format a time as RQ's hashes store it.
--
-- gives    format_time
local function format_time(ms) -- 2026-11-22T04:43:55.938000Z, computed with years that begin in March
  local days, rest = math.floor(ms / 86400000) + 719468, ms % 86400000
  local era = math.floor(days / 146097)
  local day = days - era * 146097
  local year = math.floor((day - math.floor(day / 1460) + math.floor(day / 36524) - math.floor(day / 146096)) / 365)
  day = day - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  local month = math.floor((5 * day + 2) / 153)
  day = day - math.floor((153 * month + 2) / 5) + 1
  year, month = year + era * 400 + (month > 9 and 1 or 0), month > 9 and month - 9 or month + 3
  local hour, minute, second = math.floor(rest / 3600000), math.floor(rest / 60000) % 60, math.floor(rest / 1000) % 60
  return string.format('%04d-%02d-%02dT%02d:%02d:%02d.%03d000Z', year, month, day, hour, minute, second, rest % 1000)
end
