-- Choose the unit of new scores: that of the option, else that of the scores in the topic.
--
-- needs    queued reserved S MS
--          unit  ms, s or auto; it becomes ms or s
if unit == 'auto' then
  local in_s = redis.call('ZCOUNT', queued, S, '(' .. MS) + redis.call('ZCOUNT', reserved, S, '(' .. MS) > 0
  local in_ms = redis.call('ZCOUNT', queued, MS, '(9e15') + redis.call('ZCOUNT', reserved, MS, '(9e15') > 0
  if in_s == in_ms then
    return redis.error_reply('ERR this topic ' .. (in_s and 'has scores in both units' or 'has no score that shows its unit') ..
      ': use --system redisched:unit=ms (its Node programs) or redisched:unit=s (those in Go); nothing was changed')
  end
  unit = in_ms and 'ms' or 's'
end
