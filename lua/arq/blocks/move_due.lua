-- Give queued jobs another due time, and let their records live as long after it as before.
--
-- needs    ids now_ms words
--          expires_ms  how long after its due time a job may start
--          dues        {id, due} of each
if #dues == 0 then return words end

redis.call('ZREMRANGEBYRANK', ids, 1, 0) -- removes nothing, but lets the drain continue over maxmemory
for _, job in ipairs(dues) do
  local left_ms, wanted_ms = redis.call('PTTL', 'arq:job:' .. job[1]), math.max(0, job[2] - now_ms) + expires_ms
  if left_ms >= 0 and left_ms < wanted_ms then redis.call('PEXPIRE', 'arq:job:' .. job[1], string.format('%.0f', wanted_ms)) end
  redis.call('ZADD', ids, 'XX', string.format('%.0f', job[2]), job[1])
end
return words
