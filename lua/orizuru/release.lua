-- Release jobs that their consumer holds: they are the next ones.
--
-- moves    processing -> source
-- derived  orizuru:consumers:<worker>:processing
-- KEYS     source                  list  ready jobs, the next one last
--          consumers (processing)  set   names of registered consumers
-- ARGV     each  (member bytes, worker bytes)
-- returns each  moved  released
--               gone   that consumer does not hold it
local source, consumers = KEYS[1], KEYS[2]
redis.call('LLEN', source)
redis.call('SCARD', consumers)
if #ARGV < 2 or #ARGV > 2000 or #ARGV % 2 == 1 then
  return redis.error_reply('ERR a batch has 1 to 1000 rows of member and worker; nothing was changed')
end
for i = 2, #ARGV, 2 do
  local key = 'orizuru:consumers:' .. ARGV[i] .. ':processing'
  if type(redis.pcall('LLEN', key)) ~= 'number' then
    return redis.error_reply('ERR key ' .. key .. ' holds no list; nothing was changed')
  end
end

local words = {}
for i = #ARGV - 1, 1, -2 do -- from the last, so that the first row is the next job
  local member, processing = ARGV[i], 'orizuru:consumers:' .. ARGV[i + 1] .. ':processing'
  local at = (i + 1) / 2
  if redis.call('LPOS', processing, member) then
    redis.call('LTRIM', processing, 0, -1) -- frees nothing: a drain may go on over maxmemory
    redis.call('RPUSH', source, member)
    redis.call('LREM', processing, 1, member)
    words[at] = 'moved'
  else
    words[at] = 'gone'
  end
end
return words
