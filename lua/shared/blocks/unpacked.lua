-- Unpack the strings that `packed` has packed.
--
-- gives    unpacked
local function unpacked(text) -- nil if the text is not packed
  local list, at = {}, 1
  while at <= #text do
    local digits = string.match(text, '^(%d+):', at)
    local from = digits and at + #digits + 1
    if not from or from + tonumber(digits) - 1 > #text then return nil end
    list[#list + 1] = string.sub(text, from, from + tonumber(digits) - 1)
    at = from + tonumber(digits)
  end
  return list
end
