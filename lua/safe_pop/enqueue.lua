-- Enqueue new jobs behind all waiting jobs.
--
-- With an id, the body is stored in `data` for one day, as push_msg does, and the list gets the id. Without an id, or
-- if both are equal, the body itself is the entry. An old done mark of the same id is removed, because a worker would
-- drop the new job. A job exists if its data exists, or if its id is among the 500 entries at either end.
--
-- moves    -> ready
-- writes   done
-- derived  <queue>:data:<id>  the body
-- KEYS     entries done
-- ARGV     each (body bytes, id? str)
-- returns each  moved   enqueued
--               exists  a job with this id exists
-- include: keys
local length = redis.call('LLEN', entries)
local has_marks = redis.call('SCARD', done) > 0
-- include: batch_size
local listed
local function is_listed(id)
  if not listed then
    listed = {}
    for _, block in ipairs({{0, 499}, {math.max(500, length - 500), -1}}) do
      for _, entry in ipairs(redis.call('LRANGE', entries, block[1], block[2])) do
        listed[string.sub(entry, 1, (string.find(entry, '|', 1, true) or 0) - 1)] = true
      end
    end
  end
  return listed[id]
end
local outcomes, fresh, seen = {}, {}, {}
for at = 1, #ARGV, 2 do
  local body, id = ARGV[at], ARGV[at + 1]
  if id == '' then id = body end
  if id == '' or string.find(id, '|', 1, true) then
    return redis.error_reply('ERR an id is not empty and holds no |, which ends it in this system; nothing was changed')
  end
  local data = entries .. ':data:' .. id
  if seen[id] or redis.call('EXISTS', data) == 1 or is_listed(id) then
    outcomes[#outcomes + 1] = 'exists'
  else
    outcomes[#outcomes + 1], seen[id], fresh[#fresh + 1] = 'moved', true, {id, data, id ~= body and body}
  end
end
for _, job in ipairs(fresh) do
  local id, data, body = unpack(job)
  if body then redis.call('SET', data, body, 'EX', 86400) end
  redis.call('LPUSH', entries, id)
  if has_marks then redis.call('SREM', done, id) end
end
return outcomes
