-- Add the findings of a queue to the rows of a reply, with its name.
--
-- needs    add_finding_row
--          name         of the queue
-- gives    add_finding
-- include: add_finding_row
local function add_finding(kind, key, id, number, word, seconds, since_ms, until_ms)
  local whole_seconds = math.max(0, math.min(1e9, math.floor(seconds or 0)))
  add_finding_row(kind, key, id, number, word or '', whole_seconds, since_ms or '', until_ms or '', name)
end
