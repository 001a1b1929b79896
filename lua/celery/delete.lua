-- Delete messages that wait in the queue, or whose visibility timeout is over.
--
-- A message that a worker holds is also in the memory of the worker and would run anyway: cancel its task. The script searches near
-- both ends of each list.
--
-- moves    queue late ->
-- writes   unacked_index
-- derived  <prefix><queue><sep><step>         the list of another priority
--          <prefix>_kombu.binding.<exchange>  the bindings of an exchange: the queue of each routing key
-- KEYS     queue unacked unacked_index
-- ARGV     queue       str   the name of the queue
--          prefix      str   the prefix of all keys; may be empty
--          sep         str   the separator between the name of a queue and a priority
--          steps       str   the priorities that have a list of their own: 0/3/6/9
--          visibility  int   the visibility timeout (s): after it kombu delivers an unacked message again
--          now_ms?     int   a test's clock; the server's when empty
--          place?      str   delete only in this place; empty: in any place
--          each        (member bytes, token? str, step? str)  the message; its delivery tag if a worker took it; the priority of its list
-- returns each  moved        deleted
--               wrong_place  (place str)  a worker holds the message and would run it anyway: cancel its task
--               later        the queue is too long to search for so many messages in one call
--               gone         the message is no longer there
local visibility = ARGV[5]
-- include: keys, args(place), columns, options, visibility, batch, queue_guard, clock_argv6
-- include: find_held_place, find_spot, remove_spots
if not ({[''] = 1, queue = 1, eta = 1, unacked = 1, late = 1})[place] then
  return redis.error_reply('ERR there is no place of that name; nothing was changed')
end
local outcomes, spots, tags = {}, {}, {}
for at = scalars + 1, #ARGV, columns do
  local member, token, step = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local held_place = token ~= '' and find_held_place(token, member)
  local spot, is_unsure
  if token == '' and (place == '' or place == 'queue') then spot, is_unsure = find_spot(member, step) end
  if held_place == 'late' and (place == '' or place == 'late') then
    outcomes[#outcomes + 1], tags[#tags + 1] = 'moved', token
  elseif held_place then
    outcomes[#outcomes + 1] = {'wrong_place', held_place}
  elseif spot then
    outcomes[#outcomes + 1], spots[#spots + 1] = 'moved', spot
  else
    outcomes[#outcomes + 1] = is_unsure and 'later' or 'gone'
  end
end
if #spots + #tags == 0 then return outcomes end

begin_drain()
if #tags > 0 then
  redis.call('ZREM', unacked_index, unpack(tags))
  redis.call('HDEL', unacked, unpack(tags))
end
remove_spots(spots, {})
return outcomes
