-- Collect findings as rows of a reply, one per kind and key: the first one is the example, and the numbers of all are added up.
--
-- gives    rows
--          add_finding_row  the other values follow the number
local rows, row_at = {}, {}
local function add_finding_row(kind, key, id, number, ...)
  local at = row_at[kind .. key]
  if at then
    rows[at][4] = rows[at][4] + number
  else
    rows[#rows + 1] = {kind, key, string.sub(id, 1, 1000), number, ...}
    row_at[kind .. key] = #rows
  end
end
