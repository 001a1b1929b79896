-- What a queue of the mill holds at one instant.
--
-- derived  <prefix>:worker:<name>  a worker
--          <prefix>:job:<id>       a job, whose queue the shared place does not tell
-- KEYS     scheduled  list  ids
--          deferred  list  ids of all queues
--          queued  list  ids
--          ready  list  ids
--          started  list  ids
--          intermediate  list  ids
--          finished  list  ids
--          failed  list  ids
--          canceled  list  ids
--          paused  string  there while all queues rest
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          prefix   str  of all its keys
--          queue    str  whose jobs of the shared place are counted, among its first 100
-- returns  counted  (now_ms int, scheduled int, deferred int, deferred_exact bool, deferred_of int, queued int, ready int, started int, intermediate int, finished int, failed int, canceled int, paused bool, workers int)
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local answer = {'counted', now_ms}
for at = 1, 9 do
  local length = redis.call('LLEN', KEYS[at])
  if at == 2 then
    local seen, mine = redis.call('LRANGE', KEYS[at], 0, 99), 0
    for _, id in ipairs(seen) do
      if redis.call('HGET', ARGV[2] .. ':job:' .. id, 'queue') == ARGV[3] then mine = mine + 1 end
    end
    answer[#answer + 1] = length == #seen and mine or math.floor(mine * length / #seen)
    answer[#answer + 1] = length == #seen and '1' or ''
  end
  answer[#answer + 1] = length
end
answer[#answer + 1] = redis.call('EXISTS', KEYS[10]) == 1
answer[#answer + 1] = redis.call('SCARD', ARGV[2] .. ':workers')
return answer
