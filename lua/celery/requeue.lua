-- Requeue failed tasks: enqueue each again with its id, behind the waiting messages of its priority.
--
-- Celery stores no message of a failed task. A client that receives events builds the message from what they report of the call. A
-- message is not enqueued if one with its id is among the last messages of its list, or if a worker holds its delivery tag. A
-- requeue has no undo, but a message that still waits can be deleted.
--
-- A job without `of_broker` is known only by its result. The database of results may serve apps whose broker is another database of
-- this Redis. Such a job is enqueued only if no other database has a key.
--
-- moves    -> queue
-- writes   binding binding_permanent
-- derived  <prefix><queue><sep><step>  the list of another priority
-- KEYS     queue binding binding_permanent unacked
-- ARGV     queue   str   the name of the queue
--          prefix  str   the prefix of all keys; may be empty
--          sep     str   the separator between the name of a queue and a priority
--          steps   str   the priorities that have a list of their own: 0/3/6/9
--          each    (id bytes, new bytes, of_broker? bool)  the complete message with this id; whether this database had a message or an event of it
-- returns each  moved      requeued
--               exists     the message already waits, or a worker holds it
--               elsewhere  only its result is known, and its broker may be another database of this Redis
-- include: keys, columns, options, batch, queue_guard, key_types(unacked), prepare_binding, read_message, is_only_database
local bind_new_queue = prepare_binding(binding, binding_permanent, lists, name)
local last_ids, requeued, outcomes, jobs = {}, {}, {}, {}
local is_alone
local function read_last_ids(list) -- of the last 200 messages that were pushed, or the last 4 MB
  local ids, bytes, rank = {}, 0, 0
  local message = redis.call('LINDEX', list, rank)
  while message and rank < 200 and bytes < 4194304 do
    local headers = string.find(message, '"headers"', 1, true)
    ids[headers and string.match(message, '"id": ?"([^"]+)"', headers) or ''] = true
    bytes, rank = bytes + #message, rank + 1
    message = redis.call('LINDEX', list, rank)
  end
  return ids
end
for at = scalars + 1, #ARGV, columns do
  local id, new, of_broker = ARGV[at], ARGV[at + 1], ARGV[at + 2] == '1'
  local own_id, list, tag = read_message(new)
  if own_id ~= id then
    return redis.error_reply('ERR job ' .. (at - scalars - 1) / columns + 1
      .. ' of the batch: its body is no message of Celery, with a task, this id and a delivery_tag; nothing was changed')
  end
  if not of_broker and is_alone == nil then is_alone = is_only_database() end
  last_ids[list] = last_ids[list] or read_last_ids(lists[list][1])
  if requeued[id] or last_ids[list][id] or redis.call('HEXISTS', unacked, tag) == 1 then
    outcomes[#outcomes + 1] = 'exists'
  elseif not of_broker and not is_alone then
    outcomes[#outcomes + 1] = 'elsewhere'
  else
    requeued[id], outcomes[#outcomes + 1], jobs[#jobs + 1] = true, 'moved', {list, new}
  end
end

if #jobs > 0 then bind_new_queue() end
for _, job in ipairs(jobs) do redis.call('LPUSH', lists[job[1]][1], job[2]) end
return outcomes
