-- rq: the guard of a verb on rows.
-- needs    scalars columns, how many arguments stand before the rows and how many make one; ARGV[1] is `prefix`
-- gives    rows prefix
local rows, prefix = (#ARGV - scalars) / columns, ARGV[1]
if rows < 1 or rows > 1000 or rows ~= math.floor(rows) or prefix == '' then
  return redis.error_reply('ERR it takes the prefix, and 1 to 1000 rows, each with all of its columns; nothing was changed')
end
