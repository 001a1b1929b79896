-- Check the number of arguments, and that each of the integers among them is a whole number or empty.
--
-- needs    integers        their indexes in ARGV
--          argument_count  the number of arguments before the rows
for _, at in ipairs(integers) do
  if #ARGV < argument_count or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    local noun = argument_count == 1 and ' argument' or ' arguments'
    return redis.error_reply('ERR it takes ' .. argument_count .. noun .. ', whole numbers where the header says int; nothing was changed')
  end
end
