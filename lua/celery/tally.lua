-- Count the waiting messages of many queues, and return the task of the next message. `spread.lua` counts the unacked messages.
--
-- derived  <prefix><queue><sep><step>  the list of another priority
-- KEYS     each (queue list)  messages of priority 0; the last one runs next
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          sep      str  the separator between the name of a queue and a priority
--          steps    str  the priorities that have a list of their own: 0/3/6/9
-- returns  counted  (now_ms int)  rows (queue int, tasks str)  a row per queue, in the order of the keys
if #ARGV < 3 then return redis.error_reply('ERR it takes 3 arguments') end
-- include: clock
local rows, suffixes = {}, {}
for step in string.gmatch(ARGV[3], '%d+') do suffixes[#suffixes + 1] = tonumber(step) == 0 and '' or ARGV[2] .. step end
for at, queue in ipairs(KEYS) do
  local length, task = 0, ''
  for _, suffix in ipairs(suffixes) do
    local number = redis.call('LLEN', queue .. suffix)
    if length == 0 and number > 0 then
      task = string.match(string.sub(redis.call('LINDEX', queue .. suffix, -1), -6144), '"task": ?"([^"\\]+)"') or ''
    end
    length = length + number
  end
  rows[at] = {length, string.sub(task, 1, 200)}
end
return {'counted', now_ms, rows}
