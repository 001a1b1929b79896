-- Release messages that a worker took and will not ack: workers take them next within their priority.
--
-- The script sets `redelivered` in each message, as kombu does, and keeps all other bytes. Redis does not store which worker holds a
-- message. Without `force` the script releases only late messages, which every consumer may deliver again. A released task that a
-- live worker runs will run twice.
--
-- moves    unacked late -> queue
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
--          force?      bool  also release messages whose visibility timeout is not over
--          each        (member bytes, token str)  the message and its delivery tag
-- returns each  moved  released
--               held   a worker may hold the message, and the task would run twice: stop that worker, or use force
--               raw    kombu cannot deliver these bytes again: they can only be deleted, once they are late
--               gone   no worker holds the message any more
local visibility = ARGV[5]
-- include: keys, args(force), columns, options, visibility, batch, queue_guard, find_list, clock_argv6
-- include: find_held_place, redeliver, push_redelivered
for _, list in ipairs(lists) do redis.call('LLEN', list[1]) end
local outcomes, released, seen = {}, {}, {}
for at = scalars + 1, #ARGV, columns do
  local member, token = ARGV[at], ARGV[at + 1]
  local place = not seen[token] and find_held_place(token, member)
  local message, priority
  if place then message, priority = redeliver(member) end
  if not place then
    outcomes[#outcomes + 1] = 'gone'
  elseif place ~= 'late' and not force then
    outcomes[#outcomes + 1] = 'held'
  elseif not message then
    outcomes[#outcomes + 1] = 'raw'
  else
    outcomes[#outcomes + 1], seen[token], released[#released + 1] = 'moved', true, {token, message, lists[find_list(priority)][1]}
  end
end
if #released > 0 then push_redelivered(released) end
return outcomes
