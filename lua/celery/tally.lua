-- How many messages wait in each of many queues, and the task of the next one; what workers hold is counted by `spread.lua`.
--
-- derived  <queue><sep><step>  the list of another priority
-- KEYS     each (queue list)  messages of priority 0, the last one is next
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          sep      str  what parts a queue from its priority
--          steps    str  the priorities that have a list: 0/3/6/9
-- returns  counted  (now_ms int)  rows (queue int, tasks str)  a row per queue, in the order of the keys
if #ARGV < 3 then return redis.error_reply('ERR it takes 3 arguments') end
-- block: clock
if #ARGV < 1 or #ARGV[1] > 15 or string.find(ARGV[1], '%D') then
  return redis.error_reply('ERR now_ms is a whole number; nothing was changed')
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
-- end
local rows, endings = {}, {}
for step in string.gmatch(ARGV[3], '%d+') do endings[#endings + 1] = tonumber(step) == 0 and '' or ARGV[2] .. step end
for at, queue in ipairs(KEYS) do
  local length, task = 0, ''
  for _, ending in ipairs(endings) do
    local number = redis.call('LLEN', queue .. ending)
    if length == 0 and number > 0 then
      task = string.match(string.sub(redis.call('LINDEX', queue .. ending, -1), -6144), '"task": ?"([^"\\]+)"') or ''
    end
    length = length + number
  end
  rows[at] = {length, string.sub(task, 1, 200)}
end
return {'counted', now_ms, rows}
