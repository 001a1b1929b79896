-- Check that arguments are there, and that each integer is a whole number or empty.
--
-- needs    integers        the indexes in ARGV
--          argument_count  arguments in front of the rows
for _, at in ipairs(integers) do
  if #ARGV < argument_count or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR arguments: at least ' .. argument_count .. ', whole numbers where the header says int; nothing was changed')
  end
end
