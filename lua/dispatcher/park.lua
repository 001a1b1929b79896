-- Park tasks for a migration: the ready ones, then the delayed ones, each in their order.
--
-- The script moves tasks to the list `leaving`, as `<due_ms> <task>` with 0 for a ready or overdue task. They stay
-- there until `forget` removes them, so an interrupted migration loses no task: the next call returns the same tasks
-- first. Delayed tasks that are due after the year 2255, or whose due time has another unit, are not moved.
--
-- moves    ready delayed ->
-- writes   leaving
-- KEYS     delayed ready leaving
-- ARGV     limit    int   how many at most, 1 to 1000
--          place?   str   only from delayed, or only from ready
-- returns  moved  rows (entry bytes)  parked
--          empty  no task to park, and none is parked
-- include: keys, arguments, args, key_types(delayed ready)
if not limit or limit < 1 or limit > 1000 then return redis.error_reply('ERR limit is 1 to 1000; nothing was changed') end
if place ~= '' and place ~= 'delayed' and place ~= 'ready' then
  return redis.error_reply('ERR the place is delayed or ready, or empty for both; nothing was changed')
end
local rows = redis.call('LRANGE', leaving, 0, limit - 1)
local room, entries, tasks = limit - #rows, {}, {}
local first = place ~= 'delayed' and room > 0 and redis.call('LRANGE', ready, 0, room - 1) or {}
for at, task in ipairs(first) do entries[at] = '0 ' .. task end
room = room - #first
if place ~= 'ready' then
  local due = redis.call('ZRANGEBYSCORE', delayed, '-inf', '9007199254', 'WITHSCORES', 'LIMIT', 0, room)
  for i = 1, #due, 2 do
    local due_ms = math.max(0, math.floor(tonumber(due[i + 1]) * 1000 + 0.5))
    tasks[#tasks + 1], entries[#entries + 1] = due[i], string.format('%.0f ', due_ms) .. due[i]
  end
end
if #entries > 0 then
  redis.call('ZREMRANGEBYRANK', delayed, 1, 0) -- removes nothing, but lets the drain continue over maxmemory
  redis.call('RPUSH', leaving, unpack(entries))
  if #first > 0 then redis.call('LTRIM', ready, #first, -1) end
  if #tasks > 0 then redis.call('ZREM', delayed, unpack(tasks)) end
end
for _, entry in ipairs(entries) do rows[#rows + 1] = entry end
for at, entry in ipairs(rows) do rows[at] = {entry} end
return #rows > 0 and {'moved', rows} or {'empty'}
