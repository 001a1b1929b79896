-- Promote delayed tasks: make them ready now.
--
-- moves    delayed -> ready
-- KEYS     delayed ready
-- ARGV     each     (member bytes)
-- returns each  moved  promoted
--               gone   it is not delayed
-- include: keys, key_types(ready), batch_size(tasks)
local outcomes, tasks, seen = {}, {}, {}
for at, member in ipairs(ARGV) do
  local is_delayed = redis.call('ZSCORE', delayed, member) and not seen[member]
  outcomes[at], seen[member] = is_delayed and 'moved' or 'gone', true
  if is_delayed then tasks[#tasks + 1] = member end
end
if #tasks == 0 then return outcomes end

redis.call('ZREMRANGEBYRANK', delayed, 1, 0) -- removes nothing, but lets the drain continue over maxmemory
redis.call('RPUSH', ready, unpack(tasks))
redis.call('ZREM', delayed, unpack(tasks))
return outcomes
