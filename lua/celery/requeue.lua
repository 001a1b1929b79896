-- Requeue failed tasks: each is put anew under its own id, behind those of its priority that wait.
--
-- A failure has no key: a screen that listens tells which task failed, and makes the message of what it knows of the call. A message that
-- waits already under this id, or whose tag a worker has, is not put twice; looked through are
-- the last ones that were put into its list. There is no undo: a message that still waits can be deleted.
--
-- moves    -> queue
-- writes   binding binding_permanent
-- derived  <queue><sep><step>  the list of another priority
-- KEYS     queue              list  messages of priority 0, the last one is next
--          binding            set   routing key, pattern and queue, of the exchange that is called as the queue
--          binding_permanent  set   the same, of queues that do not expire
--          unacked            hash  tag to [message, exchange, routing key]
-- ARGV     queue   str   its name
--          prefix  str   before all keys, or nothing
--          sep     str   what parts a queue from its priority
--          steps   str   the priorities that have a list: 0/3/6/9
--          each    (id bytes, new bytes)  the whole message, of this id
-- returns each  moved   requeued
--               exists  it waits already, or a worker has it
local queue, binding, binding_permanent, unacked = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local scalars, columns = 4, 2
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
redis.call('HLEN', unacked)
for _, list in ipairs(lists) do is_new = redis.call('LLEN', list[1]) == 0 and is_new end
local waiting, known, words, jobs = {}, {}, {}, {}
local function last_ids(list) -- of the last 200 that were put into it, or the last 4 MB
  local found, bytes, rank = {}, 0, 0
  local one = redis.call('LINDEX', list, rank)
  while one and rank < 200 and bytes < 4194304 do
    local headers = string.find(one, '"headers"', 1, true)
    found[headers and string.match(one, '"id": ?"([^"]+)"', headers) or ''] = true
    bytes, rank = bytes + #one, rank + 1
    one = redis.call('LINDEX', list, rank)
  end
  return found
end
for at = scalars + 1, #ARGV, columns do
  local id, new, of = ARGV[at], ARGV[at + 1], 'ERR job ' .. (at - scalars - 1) / columns + 1 .. ' of the batch: '
  local is_json, told = pcall(cjson.decode, new)
  local headers, properties = is_json and type(told) == 'table' and told.headers, is_json and type(told) == 'table' and told.properties
  if type(headers) ~= 'table' or type(headers.task) ~= 'string' or headers.id ~= id or type(properties) ~= 'table'
    or type(properties.delivery_tag) ~= 'string' or type(properties.delivery_info) ~= 'table' or type(told.body) ~= 'string' then
    return redis.error_reply(of .. 'its body is no message of Celery, with a task, this id and a delivery_tag; nothing was changed')
  end
  local list = list_of(math.max(0, math.min(9, tonumber(properties.priority) or 0)))
  waiting[list] = waiting[list] or last_ids(lists[list][1])
  if known[id] or waiting[list][id] or redis.call('HEXISTS', unacked, properties.delivery_tag) == 1 then
    words[#words + 1] = 'exists'
  else
    known[id], words[#words + 1], jobs[#jobs + 1] = true, 'moved', {list, new}
  end
end

if #jobs > 0 and is_new then -- kombu/transport/redis.py 5.7, `_queue_bind`
  local bound = name .. ARGV[3] .. ARGV[3] .. name
  redis.call('SADD', binding, bound)
  redis.call('SADD', binding_permanent, bound)
end
for _, job in ipairs(jobs) do redis.call('LPUSH', lists[job[1]][1], job[2]) end
return words
