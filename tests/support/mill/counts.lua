-- What a queue of the mill holds at one instant.
--
-- derived  <prefix>:worker:<name>  a worker
-- KEYS     scheduled  list  ids
--          deferred  list  ids
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
-- returns  counted  (now_ms int, scheduled int, deferred int, queued int, ready int, started int, intermediate int, finished int, failed int, canceled int, paused bool, workers int)
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local answer = {'counted', now_ms}
for at = 1, 9 do answer[#answer + 1] = redis.call('LLEN', KEYS[at]) end
answer[#answer + 1] = redis.call('EXISTS', KEYS[10]) == 1
answer[#answer + 1] = redis.call('SCARD', ARGV[2] .. ':workers')
return answer
