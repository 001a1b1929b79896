-- Move waiting messages to the lists of another queue.
--
-- Each message goes to the list of the same priority, behind the messages that wait there. The messages keep their order. The new bytes
-- replace those that were read: the client writes the other queue into `delivery_info`, by which Celery retries a task and kombu
-- delivers an unacked message again. For a new queue the script writes the binding that kombu's clients write. An undo sends the
-- bytes that are in the other queue as `line`, too: a message that is gone from there was taken, and replies `changed`.
--
-- moves    queue ->
-- writes   to_queue to_binding to_binding_permanent
-- derived  <prefix><queue><sep><step>  the list of another priority, of either queue
-- KEYS     queue
--          to_queue              list  of the other queue, like those that follow
--          to_binding            set
--          to_binding_permanent  set
-- ARGV     queue     str   the name of the queue
--          prefix    str   the prefix of all keys; may be empty
--          sep       str   the separator between the name of a queue and a priority
--          steps     str   the priorities that have a list of their own: 0/3/6/9
--          to_queue  str   the name of the other queue
--          each      (member bytes, new? bytes, step? str, line? bytes)  the message, and the priority of the list that contained it when it was read
-- returns each  moved    (place str)  moved to the other queue
--               raw      these bytes are not a message of Celery, so the name of the queue cannot be written
--               changed  it changed since it was read, or a worker took it
--               later    the queue is too long to search for so many messages in one call
--               gone     the message is no longer in the queue
-- include: keys, columns, options, batch, queue_guard, find_spot, remove_spots, prepare_binding
local to_name, to_lists = string.sub(to_queue, #prefix + 1), {}
if ARGV[5] == '' or ARGV[5] ~= to_name or to_name == name or string.find(to_name, ARGV[3], 1, true) then
  return redis.error_reply('ERR to_queue is the name of another queue; nothing was changed')
end
for i, list in ipairs(lists) do to_lists[i] = {to_queue .. string.sub(list[1], #queue + 1), list[2]} end
local bind_new_queue = prepare_binding(to_binding, to_binding_permanent, to_lists, to_name)
local outcomes, spots = {}, {}
for at = scalars + 1, #ARGV, columns do
  local member, new, step, line = unpack(ARGV, at, at + 3)
  local spot, is_unsure = find_spot(member, step)
  if not spot then
    outcomes[#outcomes + 1] = is_unsure and 'later' or line ~= '' and 'changed' or 'gone'
  elseif new == '' then
    outcomes[#outcomes + 1] = 'raw'
  else
    outcomes[#outcomes + 1], spots[#spots + 1], spot[3] = {'moved', 'queue'}, spot, new
  end
end
if #spots == 0 then return outcomes end
table.sort(spots, function(a, b) return a[2] > b[2] end) -- of each list the message that runs next comes first

begin_drain()
bind_new_queue()
for _, spot in ipairs(spots) do redis.call('LPUSH', to_lists[spot[1]][1], spot[3]) end
remove_spots(spots, {})
return outcomes
