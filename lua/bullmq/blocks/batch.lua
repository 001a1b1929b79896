-- Check that the arguments are the prefix `p` and 1 to 1000 complete rows.
--
-- needs    scalars  the number of arguments before the rows
--          columns  the number of arguments per row
--          ARGV[1]  p
-- gives    rows p
local rows, p = (#ARGV - scalars) / columns, ARGV[1]
if rows < 1 or rows > 1000 or rows ~= math.floor(rows) or p == '' or string.sub(KEYS[1], 1, #p) ~= p then
  return redis.error_reply('ERR it takes what the keys begin with, and 1 to 1000 rows, each with all of its columns; nothing was changed')
end
