-- Look for what the original program does wrong with, or would never dispatch; and for what a migration left behind.
--
-- `looked` is the number of delayed tasks: all are looked at, by their due times.
--
-- KEYS     delayed  zset  task by due (s)
--          ready    list  tasks, first in, first out
--          leaving  list  what a migration has taken and not yet settled
-- returns  looked  (looked int)  rows (kind str, key str, id bytes, number int)
local delayed, ready, leaving = KEYS[1], KEYS[2], KEYS[3]
redis.call('LLEN', ready)
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
local left = redis.call('LLEN', leaving)
if left > 0 then
  rows[#rows + 1] = {'no_place', leaving, string.match(redis.call('LRANGE', leaving, 0, 0)[1], '^%d+ (.*)$') or '', left}
end
return {'looked', redis.call('ZCARD', delayed), rows}
