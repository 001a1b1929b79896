-- Convert minutes since 1970 to a date and a time of day, in UTC.
--
-- gives    clock_of
local function clock_of(minutes) -- Convert minutes since 1970 to year, month, day, hour and minute.
  local days = math.floor(minutes / 1440) + 719468
  local era = math.floor(days / 146097)
  local doe = days - era * 146097
  local yoe = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524) - math.floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + math.floor(yoe / 4) - math.floor(yoe / 100))
  local mp = math.floor((5 * doy + 2) / 153)
  local month = mp < 10 and mp + 3 or mp - 9
  local of_day = minutes % 1440
  return yoe + era * 400 + (month <= 2 and 1 or 0), month, doy - math.floor((153 * mp + 2) / 5) + 1, math.floor(of_day / 60), of_day % 60
end
