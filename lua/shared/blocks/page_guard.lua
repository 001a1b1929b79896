-- Check the arguments of a page. The last three are offset, limit and body_bytes.
--
-- needs    arguments  the number of arguments of the script
--          limit      as a number
for at = arguments - 2, arguments do
  if #ARGV < arguments or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d+$') then
    return redis.error_reply('ERR it takes ' .. arguments .. ' arguments, whole numbers where the header says int; nothing was changed')
  end
end
if limit < 1 or limit > 1000 then return redis.error_reply('ERR limit is 1 to 1000') end
