-- Promote delayed tasks: make them ready now.
--
-- moves    delayed -> ready
-- KEYS     delayed  zset  task by due (s)
--          ready    list  tasks, first in, first out
-- ARGV     each     (member bytes)
-- returns each  moved  promoted
--               gone   it is not delayed
local delayed, ready = KEYS[1], KEYS[2]
redis.call('LLEN', ready)
if #ARGV < 1 or #ARGV > 1000 then return redis.error_reply('ERR a batch has 1 to 1000 tasks; nothing was changed') end
local words, tasks, seen = {}, {}, {}
for at, member in ipairs(ARGV) do
  local is_delayed = redis.call('ZSCORE', delayed, member) and not seen[member]
  words[at], seen[member] = is_delayed and 'moved' or 'gone', true
  if is_delayed then tasks[#tasks + 1] = member end
end
if #tasks == 0 then return words end

redis.call('ZREMRANGEBYRANK', delayed, 1, 0) -- removes nothing, but lets the drain continue over maxmemory
redis.call('RPUSH', ready, unpack(tasks))
redis.call('ZREM', delayed, unpack(tasks))
return words
