-- Ack jobs that their consumer holds: it has finished them.
--
-- moves    processing ->
-- derived  orizuru:consumers:<worker>:processing
-- KEYS     consumers (processing)  set  names of registered consumers
-- ARGV     each  (member bytes, worker bytes)
-- returns each  moved  acked
--               gone   that consumer does not hold it
local consumers = KEYS[1]
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
for i = 1, #ARGV, 2 do
  local removed = redis.call('LREM', 'orizuru:consumers:' .. ARGV[i + 1] .. ':processing', 1, ARGV[i])
  words[#words + 1] = removed == 1 and 'moved' or 'gone'
end
return words
