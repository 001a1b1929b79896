-- Check a batch of jobs, and the types of their consumers' lists.
--
-- needs    places  the places whose lists the script uses
-- include: key_types(consumers), batch_size
for i = 2, #ARGV, 2 do
  for _, place in ipairs(places) do
    local key = 'orizuru:consumers:' .. ARGV[i] .. ':' .. place
    if type(redis.pcall('LLEN', key)) ~= 'number' then
      return redis.error_reply('ERR key ' .. key .. ' holds no list; nothing was changed')
    end
  end
end
