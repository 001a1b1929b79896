-- Restore deleted messages as they were, by the bytes and scores of `records`.
--
-- One that waited comes back to its list, behind so many that run before it; where the entries of that times the rows are more than a
-- million, it is the next one, since its place would be searched for.
--
-- moves    -> queue | late
-- writes   unacked_index
-- derived  <queue><sep><step>  the list of another priority
-- KEYS     queue           list  messages of priority 0, the last one is next
--          unacked (late)  hash  tag to [message, exchange, routing key]
--          unacked_index   zset  tag by when it was taken (s)
-- ARGV     queue   str  its name
--          prefix  str  before all keys, or nothing
--          sep     str  what parts a queue from its priority
--          steps   str  the priorities that have a list: 0/3/6/9
--          each    (place str, score str, record? str, body bytes)
-- returns each  moved   (place str)  restored
--               exists  a worker holds it again
local queue, unacked, unacked_index = KEYS[1], KEYS[2], KEYS[3]
local scalars, columns = 4, 4
-- block: celery_options, celery_batch, celery_of_queue, celery_lengths, celery_put_back
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
local lengths = {}
for i, list in ipairs(lists) do lengths[i] = redis.call('LLEN', list[1]) end
local function stood_at(score)
  local number = string.find(score, '^%d+$') and #score < 16 and tonumber(score)
  local i = number and math.floor(number / 2 ^ 40)
  if i and lists[i] then return i, number - i * 2 ^ 40 end
end
local function put_back(i, before, message)
  local list = lists[i][1]
  local pivot = before > 0 and redis.call('LINDEX', list, -before)
  if before > 0 and not pivot then
    redis.call('LPUSH', list, message)
  elseif pivot and lengths[i] * rows <= 1000000 then -- the pivot is searched for
    redis.call('LINSERT', list, 'BEFORE', pivot, message)
  else
    redis.call('RPUSH', list, message)
  end
end
-- end
redis.call('HLEN', unacked)
redis.call('ZCARD', unacked_index)
local words, waiting, held = {}, {}, {}
for at = scalars + 1, #ARGV, columns do
  local place, score, record, body = unpack(ARGV, at, at + 3)
  local i, before = stood_at(score)
  local is_late = place == 'late' and record ~= '' and string.find(score, '^[%d.]+$') and tonumber(score)
  if body == '' or not is_late and not (place == 'queue' and i) then
    return redis.error_reply('ERR row ' .. (at - scalars - 1) / columns + 1 .. ' does not say what stood where; nothing was changed')
  end
  local stands = is_late and redis.call('HEXISTS', unacked, record) == 1
  words[#words + 1] = stands and 'exists' or {'moved', place}
  if is_late and not stands then held[#held + 1] = {record, score, body} end
  if not is_late then waiting[#waiting + 1] = {i, before, body} end
end
table.sort(waiting, function(a, b) return a[1] == b[1] and a[2] < b[2] or a[1] < b[1] end) -- each counts on those before it

for _, one in ipairs(held) do
  redis.call('HSET', unacked, one[1], one[3])
  redis.call('ZADD', unacked_index, one[2], one[1])
end
for _, one in ipairs(waiting) do put_back(unpack(one)) end
return words
