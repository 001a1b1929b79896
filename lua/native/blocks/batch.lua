-- Check a batch of 1 to 1000 rows, and that `now_ms` is a whole number.
--
-- needs    scalars    the number of arguments before the rows
--          columns    the number of columns of a row
--          row_names  describes the rows in the error message
--          ARGV[1]  now_ms?
local row_count = (#ARGV - scalars) / columns
if row_count < 1 or row_count > 1000 or row_count % 1 > 0 then
  return redis.error_reply('ERR a batch has 1 to 1000 ' .. row_names .. '; nothing was changed')
end
if #ARGV[1] > 13 or string.find(ARGV[1], '%D') then return redis.error_reply('ERR now_ms is a whole number; nothing was changed') end
