-- Check a batch of 1 to 1000 rows, and that the first argument is the name of the queue.
--
-- needs    scalars  the number of arguments before the rows
--          columns  the number of columns of a row
--          queue    the list of the queue
--          ARGV[1]  queue
-- gives    rows
local rows = (#ARGV - scalars) / columns
if rows < 1 or rows > 1000 or rows ~= math.floor(rows) then
  return redis.error_reply('ERR it takes 1 to 1000 rows, each with all of its columns; nothing was changed')
end
if ARGV[1] == '' or string.sub(queue, -#ARGV[1] - 6) ~= 'queue:' .. ARGV[1] then
  return redis.error_reply('ERR the list of a queue is queue:NAME, and the first argument is the name; nothing was changed')
end
