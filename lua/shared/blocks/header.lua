-- The header of a record: `-` and 0 for all that the short form leaves out, since all of it is default.
-- gives    header
local function header(record) -- enqueued, due, priority, ttr, most, backoff, cap, keep, body_bytes; nothing where it cannot be read
  local enqueued = string.match(record, '^(%d+):[^\n]*\n')
  if enqueued then return enqueued, '-', '0', '-', '-', '-', '-', '-', '-' end
  return string.match(record, '^(%d+) (%S+) (%-?%d+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) [^\n]*\n')
end
