-- Convert a time of RQ's hashes, `2026-11-22T04:43:55.938008Z`, to ms since 1970. Returns nil for another text.
--
-- gives    parse_time
local function parse_time(text)
  local y, m, d, h, min, s, rest = string.match(text or '', '^(%d%d%d%d)%-(%d%d)%-(%d%d)[T ](%d%d):(%d%d):(%d%d)(.*)$')
  if not y then return nil end
  y, m = tonumber(y), tonumber(m)
  if m <= 2 then y, m = y - 1, m + 12 end -- a year that begins in March ends with its leap day
  local days = 365 * y + math.floor(y / 4) - math.floor(y / 100) + math.floor(y / 400) + math.floor((153 * (m - 3) + 2) / 5) + d
  local ms = tonumber(string.sub((string.match(rest, '^%.(%d+)') or '') .. '000', 1, 3))
  return (days - 719469) * 86400000 + h * 3600000 + min * 60000 + s * 1000 + ms
end
