-- Stop workers: each is told to end after its job.
--
-- Nothing is kept: who does not listen never learns it.
--
-- writes   commands
-- derived  <prefix>:worker:<worker>
-- KEYS     commands  channel  before the channel of each worker
-- ARGV     prefix    str  before all keys: rq
--          each      (worker bytes)
-- returns each  asked    (heard int)  asked to stop: it ends after its job
--               unheard  it does not listen
--               gone     no such worker
local commands, prefix = KEYS[1], ARGV[1]
if #ARGV < 2 or #ARGV > 1001 or prefix == '' then
  return redis.error_reply('ERR it takes the prefix, and 1 to 1000 workers; nothing was changed')
end
local words = {}
for at = 2, #ARGV do
  local is_there = redis.call('EXISTS', prefix .. ':worker:' .. ARGV[at]) == 1
  local heard = is_there and redis.call('PUBLISH', commands .. ARGV[at], '{"command": "shutdown"}')
  words[#words + 1] = not is_there and 'gone' or heard > 0 and {'asked', heard} or 'unheard'
end
return words
