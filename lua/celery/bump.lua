-- Bump messages of the queue: workers take them next, whatever their priority.
--
-- Each message moves to the end of the list of the first priority, from which a worker takes first. Its own priority does not
-- change. The script searches near both ends of each list.
--
-- moves    queue -> queue
-- derived  <prefix><queue><sep><step>  the list of another priority
-- KEYS     queue
-- ARGV     queue   str   the name of the queue
--          prefix  str   the prefix of all keys; may be empty
--          sep     str   the separator between the name of a queue and a priority
--          steps   str   the priorities that have a list of their own: 0/3/6/9
--          each    (member bytes, step? str)  the message, and the priority of the list that contained it when it was read
-- returns each  moved  bumped
--               later  the queue is too long to search for so many messages in one call
--               gone   the message is no longer in the queue
-- include: keys, columns, options, batch, queue_guard, find_spot, remove_spots
local outcomes, spots, first = {}, {}, lists[1][1]
for at = scalars + 1, #ARGV, columns do
  local spot, is_unsure = find_spot(ARGV[at], ARGV[at + 1])
  outcomes[#outcomes + 1] = spot and 'moved' or is_unsure and 'later' or 'gone'
  spots[#spots + 1] = spot
end
if #spots == 0 then return outcomes end

begin_drain()
for i = #spots, 1, -1 do redis.call('RPUSH', first, spots[i][3]) end -- the first row is pushed last, so workers take it first
remove_spots(spots, {#spots})
return outcomes
