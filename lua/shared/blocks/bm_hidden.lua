-- bullmq: what is said of an id that was not found.
-- needs    lengths sight
-- gives    is_hidden
local function is_hidden() -- whether an id that was not found may stand in the middle of a list
  for _, length in pairs(lengths) do
    if length > 2 * sight then return true end
  end
  return false
end
