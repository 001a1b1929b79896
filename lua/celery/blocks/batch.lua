-- Check that the arguments after the scalars are 1 to 1000 complete rows.
--
-- needs    scalars  the number of arguments before the rows
--          columns  the number of arguments in a row
-- gives    rows     the number of rows
local rows = (#ARGV - scalars) / columns
if rows < 1 or rows > 1000 or rows ~= math.floor(rows) then
  return redis.error_reply('ERR it takes 1 to 1000 rows, each with all of its columns; nothing was changed')
end
