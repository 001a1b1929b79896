-- Park tasks for a migration: the ready ones, then the delayed, in their order.
--
-- They go to the list `leaving` as `<due_ms> <task>`, with 0 for those that are ready or overdue, and stay there until
-- `forget` removes them: a migration that breaks off loses none, and is handed the same ones again, first. Delayed tasks
-- whose due time is beyond the year 2255, or in another unit, stay where they are.
--
-- moves    ready delayed ->
-- writes   leaving
-- KEYS     delayed  zset  task by due (s)
--          ready    list  tasks, first in, first out
--          leaving  list  tasks parked for a migration
-- ARGV     limit    int   how many at most, 1 to 1000
--          place?   str   from delayed or from ready alone
-- returns  moved  rows (entry bytes)  parked
--          empty  there is nothing to take, and nothing is parked
local delayed, ready, leaving = KEYS[1], KEYS[2], KEYS[3]
for _, at in ipairs({1}) do
  if #ARGV < 2 or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d*$') then
    return redis.error_reply('ERR it takes 2 arguments, whole numbers where the header says int; nothing was changed')
  end
end
local limit, place = tonumber(ARGV[1]), ARGV[2]
redis.call('ZCARD', delayed)
redis.call('LLEN', ready)
if not limit or limit < 1 or limit > 1000 then return redis.error_reply('ERR limit is 1 to 1000; nothing was changed') end
if place ~= '' and place ~= 'delayed' and place ~= 'ready' then
  return redis.error_reply('ERR the place is delayed or ready, or empty for both; nothing was changed')
end
local rows = redis.call('LRANGE', leaving, 0, limit - 1)
local room, entries, tasks = limit - #rows, {}, {}
local first = place ~= 'delayed' and room > 0 and redis.call('LRANGE', ready, 0, room - 1) or {}
for at, task in ipairs(first) do entries[at] = '0 ' .. task end
room = room - #first
if place ~= 'ready' and room > 0 then
  local found = redis.call('ZRANGEBYSCORE', delayed, '-inf', '9007199254', 'WITHSCORES', 'LIMIT', 0, room)
  for i = 1, #found, 2 do
    local due_ms = math.max(0, math.floor(tonumber(found[i + 1]) * 1000 + 0.5))
    tasks[#tasks + 1], entries[#entries + 1] = found[i], string.format('%.0f ', due_ms) .. found[i]
  end
end
if #entries > 0 then
  redis.call('ZREMRANGEBYRANK', delayed, 1, 0) -- frees nothing: a drain may go on over maxmemory
  redis.call('RPUSH', leaving, unpack(entries))
  if #first > 0 then redis.call('LTRIM', ready, #first, -1) end
  if #tasks > 0 then redis.call('ZREM', delayed, unpack(tasks)) end
end
for _, entry in ipairs(entries) do rows[#rows + 1] = entry end
for at, entry in ipairs(rows) do rows[at] = {entry} end
return #rows > 0 and {'moved', rows} or {'empty'}
