-- Pack strings into one string, each behind its length: `3:abc`.
--
-- gives    packed
local function packed(list)
  local parts = {}
  for i, item in ipairs(list) do parts[i] = #item .. ':' .. item end
  return table.concat(parts)
end
