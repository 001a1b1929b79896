-- Check that the arguments are a prefix and 1 to 1000 complete rows.
--
-- needs    scalars  the number of arguments before the rows
--          columns  the number of arguments per row
--          ARGV[1]  prefix
-- gives    rows prefix
local rows, prefix = (#ARGV - scalars) / columns, ARGV[1]
if rows < 1 or rows > 1000 or rows ~= math.floor(rows) or prefix == '' then
  return redis.error_reply('ERR it takes the prefix, and 1 to 1000 rows, each with all of its columns; nothing was changed')
end
