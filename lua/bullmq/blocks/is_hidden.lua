-- Check whether a job that was not found may exist.
--
-- needs    lengths sight
-- gives    is_hidden
-- include: find_place
local function is_hidden() -- true if the middle of a list was not searched
  for _, length in pairs(lengths) do
    if length > 2 * sight then return true end
  end
  return false
end
