-- Refuse an unknown place. For a place that the verb does not work on, each job has its own reply.
--
-- needs    place
if not ({[''] = 1, schedule = 1, retry = 1, queue = 1, work = 1, lost = 1, dead = 1})[place] then
  return redis.error_reply('ERR there is no place of that name; nothing was changed')
end
