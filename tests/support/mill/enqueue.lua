-- Enqueue jobs.
--
-- moves    -> queued
-- derived  <prefix>:job:<id>  a job
-- KEYS     queued  list  ids
-- ARGV     prefix  str  of all its keys
--          each (id bytes, body bytes)
-- returns each  moved  it waits
local outcomes = {}
for at = 2, #ARGV, 2 do
  redis.call('HSET', ARGV[1] .. ':job:' .. ARGV[at], 'body', ARGV[at + 1])
  redis.call('RPUSH', KEYS[1], ARGV[at])
  outcomes[#outcomes + 1] = 'moved'
end
return outcomes
