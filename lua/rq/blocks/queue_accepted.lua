-- Add the accepted jobs to their queue, remove them from the other places, and reply.
--
-- needs    queues queued registries queue_up leave_parents replies
--          accepted  {id, ttl, whether it is the next job} of each
--          leaves    by name of the places
redis.call('SADD', queues, queued)
for _, job in ipairs(accepted) do
  queue_up(job[1], job[2], job[3])
  for place in pairs(leaves) do redis.call('ZREM', registries[place], job[1]) end
end
for _, job in ipairs(accepted) do leave_parents(job[1]) end
return replies
