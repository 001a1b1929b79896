-- Enqueue new messages.
--
-- A body is the whole message, as a client of Celery makes it. One that shall run later waits in the list all the same, and then in the
-- memory of the worker that takes it: when it is due stands in its headers as `eta`, and `delay_ms` and `due_ms` are for who writes them.
-- What is no message is refused: a worker that pops it ends, or loses it. A new queue is bound as kombu's clients bind one, so that it is found.
--
-- moves    -> queue
-- writes   binding binding_permanent
-- derived  <queue><sep><step>  the list of another priority
-- KEYS     queue              list  messages of priority 0, the last one is next
--          binding            set   routing key, pattern and queue, of the exchange that is called as the queue
--          binding_permanent  set   the same, of queues that do not expire
-- ARGV     queue   str   its name
--          prefix  str   before all keys, or nothing
--          sep     str   what parts a queue from its priority
--          steps   str   the priorities that have a list: 0/3/6/9
--          each    (id? bytes, body bytes, priority? int, delay_ms? int, due_ms? int)
-- returns each  moved  enqueued
local queue, binding, binding_permanent = KEYS[1], KEYS[2], KEYS[3]
local scalars, columns = 4, 5
-- block: celery_options, celery_batch, celery_of_queue, celery_list_of
if #ARGV < 4 or not string.find(ARGV[4], '^%d+[%d/]*$') then
  return redis.error_reply('ERR it takes a prefix, which may be empty, a separator, and priorities as 0/3/6/9; nothing was changed')
end
local prefix, lists = ARGV[2], {}
local name = string.sub(queue, #prefix + 1)
for step in string.gmatch(ARGV[4], '%d+') do -- kombu/transport/redis.py 5.7, `_q_for_pri`
  lists[#lists + 1] = {tonumber(step) == 0 and queue or queue .. ARGV[3] .. step, step}
end
local rows = (#ARGV - scalars) / columns
if rows < 1 or rows > 1000 or rows ~= math.floor(rows) then
  return redis.error_reply('ERR it takes 1 to 1000 rows, each with all of its columns; nothing was changed')
end
if ARGV[1] == '' or ARGV[1] ~= name then
  return redis.error_reply('ERR the list of a queue is the prefix and its name, which is the first argument; nothing was changed')
end
local function list_of(priority)
  local found = #lists
  for i, list in ipairs(lists) do
    if tonumber(list[2]) <= priority then found = i end
  end
  return found
end
-- end
local is_new = redis.call('SCARD', binding) == 0
redis.call('SCARD', binding_permanent)
for _, list in ipairs(lists) do is_new = redis.call('LLEN', list[1]) == 0 and is_new end
local jobs = {}
for at = scalars + 1, #ARGV, columns do
  local id, body, of = ARGV[at], ARGV[at + 1], 'ERR job ' .. (at - scalars - 1) / columns + 1 .. ' of the batch: '
  local is_json, told = pcall(cjson.decode, body)
  local headers, properties = is_json and type(told) == 'table' and told.headers, is_json and type(told) == 'table' and told.properties
  if type(headers) ~= 'table' or type(headers.task) ~= 'string' or type(headers.id) ~= 'string' or type(properties) ~= 'table'
    or type(properties.delivery_tag) ~= 'string' or type(properties.delivery_info) ~= 'table' or type(told.body) ~= 'string' then
    return redis.error_reply(of .. 'its body is no message of Celery, with a task, an id and a delivery_tag; nothing was changed')
  end
  if id ~= '' and headers.id ~= id then
    return redis.error_reply(of .. 'its headers hold another id; nothing was changed')
  end
  jobs[#jobs + 1] = {list_of(math.max(0, math.min(9, tonumber(properties.priority) or 0))), body}
end

local words, bound = {}, name .. ARGV[3] .. ARGV[3] .. name
if is_new then -- kombu/transport/redis.py 5.7, `_queue_bind`
  redis.call('SADD', binding, bound)
  redis.call('SADD', binding_permanent, bound)
end
for i, job in ipairs(jobs) do
  redis.call('LPUSH', lists[job[1]][1], job[2])
  words[i] = 'moved'
end
return words
