-- Reject jobs that their consumer holds: move them to its list of jobs that were not acked.
--
-- A job that the consumer does not hold any more is left alone; the original pushes it all the same, and twice is two jobs.
--
-- moves    processing -> unacked
-- derived  orizuru:consumers:<worker>:processing
--          orizuru:consumers:<worker>:unacked
-- KEYS     consumers (processing unacked)  set  names of registered consumers
-- ARGV     each  (member bytes, worker bytes)
-- returns each  moved  rejected
--               gone   that consumer does not hold it
local consumers = KEYS[1]
redis.call('SCARD', consumers)
if #ARGV < 2 or #ARGV > 2000 or #ARGV % 2 == 1 then
  return redis.error_reply('ERR a batch has 1 to 1000 rows of member and worker; nothing was changed')
end
for i = 2, #ARGV, 2 do
  for _, place in ipairs({'processing', 'unacked'}) do
    local key = 'orizuru:consumers:' .. ARGV[i] .. ':' .. place
    if type(redis.pcall('LLEN', key)) ~= 'number' then
      return redis.error_reply('ERR key ' .. key .. ' holds no list; nothing was changed')
    end
  end
end

local words = {}
for i = 1, #ARGV, 2 do
  local member, prefix = ARGV[i], 'orizuru:consumers:' .. ARGV[i + 1]
  local processing, unacked = prefix .. ':processing', prefix .. ':unacked'
  if redis.call('LPOS', processing, member) then
    redis.call('LTRIM', processing, 0, -1) -- frees nothing: a drain may go on over maxmemory
    redis.call('LPUSH', unacked, member)
    redis.call('LREM', processing, 1, member)
    words[#words + 1] = 'moved'
  else
    words[#words + 1] = 'gone'
  end
end
return words
