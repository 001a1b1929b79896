-- Find tasks that the original program handles wrongly or never dispatches, and tasks of a migration that did not
-- finish.
--
-- `looked` is the number of delayed tasks: the due times of all are checked. The sizes of the first hundred tasks of
-- each place are checked, up to 4 MB in total, because Redis can only measure a task by reading it.
--
-- KEYS     delayed ready leaving
-- returns  looked  (looked int)  rows (kind str, key str, id bytes, number int)
-- include: keys, key_types(ready)
local rows = {}
local function find(kind, from, to)
  local number = redis.call('ZCOUNT', delayed, from, to)
  if number == 0 then return end
  local first = redis.call('ZRANGEBYSCORE', delayed, from, to, 'LIMIT', 0, 1)[1]
  rows[#rows + 1] = {kind, delayed, string.sub(first, 1, 1000), number}
end
find('due_not_dispatched', '-inf', '(0')
find('mixed_units', '100000000000', '(+inf')
find('corrupt_record', '+inf', '+inf')
local function measure(key, task_at)
  local example, number, read, at = '', 0, 0, 0
  while at < 100 and read < 4194304 do
    local task = task_at(at)
    if not task then break end
    if #task >= 1048576 then example, number = number == 0 and string.sub(task, 1, 60) or example, number + 1 end
    read, at = read + #task, at + 1
  end
  if number > 0 then rows[#rows + 1] = {'oversized', key, example, number} end
end
measure(delayed, function(at) return redis.call('ZRANGE', delayed, at, at)[1] end)
measure(ready, function(at) return redis.call('LINDEX', ready, at) end)
local parked = redis.call('LLEN', leaving)
if parked > 0 then
  rows[#rows + 1] = {'no_place', leaving, string.match(redis.call('LRANGE', leaving, 0, 0)[1], '^%d+ (.*)$') or '', parked}
end
return {'looked', redis.call('ZCARD', delayed), rows}
