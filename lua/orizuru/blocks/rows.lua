-- Check a batch of jobs, and the types of their consumers' lists.
--
-- needs    consumers
--          places  the places whose lists the script uses
redis.call('SCARD', consumers)
if #ARGV < 2 or #ARGV > 2000 or #ARGV % 2 == 1 then
  return redis.error_reply('ERR a batch has 1 to 1000 rows of member and worker; nothing was changed')
end
for i = 2, #ARGV, 2 do
  for _, place in ipairs(places) do
    local key = 'orizuru:consumers:' .. ARGV[i] .. ':' .. place
    if type(redis.pcall('LLEN', key)) ~= 'number' then
      return redis.error_reply('ERR key ' .. key .. ' holds no list; nothing was changed')
    end
  end
end
