-- Requeue rejected jobs behind those that wait in the source: they run again.
--
-- This is the original's garbage collector as its README describes it. Its code moves them to the consumer's processing list,
-- which nobody reads again.
--
-- moves    unacked -> source
-- derived  orizuru:consumers:<worker>:unacked
-- KEYS     source               list  ready jobs, the next one last
--          consumers (unacked)  set   names of registered consumers
-- ARGV     each  (member bytes, worker bytes)
-- returns each  moved  requeued
--               gone   it is not among what that consumer rejected
local source, consumers = KEYS[1], KEYS[2]
redis.call('LLEN', source)
redis.call('SCARD', consumers)
if #ARGV < 2 or #ARGV > 2000 or #ARGV % 2 == 1 then
  return redis.error_reply('ERR a batch has 1 to 1000 rows of member and worker; nothing was changed')
end
for i = 2, #ARGV, 2 do
  local key = 'orizuru:consumers:' .. ARGV[i] .. ':unacked'
  if type(redis.pcall('LLEN', key)) ~= 'number' then
    return redis.error_reply('ERR key ' .. key .. ' holds no list; nothing was changed')
  end
end

local words = {}
for i = 1, #ARGV, 2 do
  local member, unacked = ARGV[i], 'orizuru:consumers:' .. ARGV[i + 1] .. ':unacked'
  if redis.call('LPOS', unacked, member, 'RANK', -1) then
    redis.call('LTRIM', unacked, 0, -1) -- frees nothing: a drain may go on over maxmemory
    redis.call('LPUSH', source, member)
    redis.call('LREM', unacked, -1, member)
    words[#words + 1] = 'moved'
  else
    words[#words + 1] = 'gone'
  end
end
return words
