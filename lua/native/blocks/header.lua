-- Parse the header of a record, in its long form or in the short form without options.
--
-- gives    header
local function header(record) -- Return priority, max_attempts and body_bytes, or nothing if the header is invalid.
  local priority, most, long = string.match(record, '^%d+ %S+ (%-?%d+) %S+ (%S+) %S+ %S+ %S+ (%S+) [^\n]*\n')
  if priority then return priority, most, long end
  if string.find(record, '^%d+:[^\n]*\n') then return '0', '-', '-' end
end
