-- Enqueue new messages.
--
-- A body is a complete message as a client of Celery builds it. A message with an ETA also waits in the list, and then in the memory
-- of the worker that takes it. The client writes the ETA into the headers, from `delay_ms` or `due_ms`. The script refuses a body
-- that is not a message, because a worker that takes it ends or loses it. For a new queue the script writes the binding that kombu's
-- clients write, so that workers find the queue.
--
-- moves    -> queue
-- writes   binding binding_permanent
-- derived  <prefix><queue><sep><step>  the list of another priority
-- KEYS     queue binding binding_permanent
-- ARGV     queue   str   the name of the queue
--          prefix  str   the prefix of all keys; may be empty
--          sep     str   the separator between the name of a queue and a priority
--          steps   str   the priorities that have a list of their own: 0/3/6/9
--          each    (id? bytes, body bytes, priority? int, delay_ms? int, due_ms? int)
-- returns each  moved  enqueued
-- include: keys, columns, options, batch, queue_guard, prepare_binding, read_message
local bind_new_queue = prepare_binding(binding, binding_permanent, lists, name)
local jobs = {}
for at = scalars + 1, #ARGV, columns do
  local id, body, label = ARGV[at], ARGV[at + 1], 'ERR job ' .. (at - scalars - 1) / columns + 1 .. ' of the batch: '
  local own_id, list = read_message(body)
  if not own_id then
    return redis.error_reply(label .. 'its body is no message of Celery, with a task, an id and a delivery_tag; nothing was changed')
  end
  if id ~= '' and own_id ~= id then return redis.error_reply(label .. 'its headers hold another id; nothing was changed') end
  jobs[#jobs + 1] = {list, body}
end

local outcomes = {}
bind_new_queue()
for i, job in ipairs(jobs) do
  redis.call('LPUSH', lists[job[1]][1], job[2])
  outcomes[i] = 'moved'
end
return outcomes
