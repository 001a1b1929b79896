-- Stop workers: ask each one to end after its job.
--
-- Redis does not store the message, so a worker that is not subscribed never receives it.
--
-- writes   commands
-- derived  <prefix>:worker:<worker>
-- KEYS     commands
-- ARGV     prefix    str  prefix of all keys: rq
--          each      (worker bytes)
-- returns each  asked    (heard int)  asked to stop: it ends after its job
--               unheard  it is not subscribed
--               gone     no such worker
-- include: keys, args
if #ARGV < 2 or #ARGV > 1001 or prefix == '' then
  return redis.error_reply('ERR it takes the prefix, and 1 to 1000 workers; nothing was changed')
end
local replies = {}
for at = 2, #ARGV do
  local is_there = redis.call('EXISTS', prefix .. ':worker:' .. ARGV[at]) == 1
  local heard = is_there and redis.call('PUBLISH', commands .. ARGV[at], '{"command": "shutdown"}')
  replies[#replies + 1] = not is_there and 'gone' or heard > 0 and {'asked', heard} or 'unheard'
end
return replies
