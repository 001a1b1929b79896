-- Change the due times of queued jobs, and extend their records so that each still expires `expires_ms` after its due time.
--
-- needs    ids now_ms outcomes
--          expires_ms  how long after its due time a job may start
--          dues        {id, due} of each
if #dues == 0 then return outcomes end

redis.call('ZREMRANGEBYRANK', ids, 1, 0) -- removes nothing, but lets the drain continue over maxmemory
for _, job in ipairs(dues) do
  local left_ms, wanted_ms = redis.call('PTTL', 'arq:job:' .. job[1]), math.max(0, job[2] - now_ms) + expires_ms
  if left_ms >= 0 and left_ms < wanted_ms then redis.call('PEXPIRE', 'arq:job:' .. job[1], string.format('%.0f', wanted_ms)) end
  redis.call('ZADD', ids, 'XX', string.format('%.0f', job[2]), job[1])
end
return outcomes
