-- Enqueue new jobs behind all that wait.
--
-- With an id, the body stands in `data` for a day, as push_msg has it, and the id in the list. Without one, or where the two are
-- equal, the body is the entry: a bare push. A done mark of that name is an old one that would swallow the job; it goes.
-- An id is known by its data, or where it stands among the 500 entries at either end.
--
-- moves    -> ready
-- writes   done
-- derived  <queue>:data:<id>  the body
-- KEYS     entries (ready)  list  id, or id|unix seconds once handed out
--          done       set   ids of finished jobs whose entry still stands
-- ARGV     each (body bytes, id? str)
-- returns each  moved   enqueued
--               exists  a job of that id is there
local entries, done = KEYS[1], KEYS[2]
local length = redis.call('LLEN', entries)
local has_marks = redis.call('SCARD', done) > 0
if #ARGV < 2 or #ARGV > 2000 or #ARGV % 2 == 1 then
  return redis.error_reply('ERR a batch has 1 to 1000 rows of body and id; nothing was changed')
end
local standing
local function stands(id)
  if not standing then
    standing = {}
    for _, block in ipairs({{0, 499}, {math.max(500, length - 500), -1}}) do
      for _, entry in ipairs(redis.call('LRANGE', entries, block[1], block[2])) do
        standing[string.sub(entry, 1, (string.find(entry, '|', 1, true) or 0) - 1)] = true
      end
    end
  end
  return standing[id]
end
local words, fresh, seen = {}, {}, {}
for at = 1, #ARGV, 2 do
  local body, id = ARGV[at], ARGV[at + 1]
  if id == '' then id = body end
  if id == '' or string.find(id, '|', 1, true) then
    return redis.error_reply('ERR an id is not empty and holds no |, which ends it in this system; nothing was changed')
  end
  local data = entries .. ':data:' .. id
  if seen[id] or redis.call('EXISTS', data) == 1 or stands(id) then
    words[#words + 1] = 'exists'
  else
    words[#words + 1], seen[id], fresh[#fresh + 1] = 'moved', true, {id, data, id ~= body and body}
  end
end
for _, job in ipairs(fresh) do
  local id, data, body = unpack(job)
  if body then redis.call('SET', data, body, 'EX', 86400) end
  redis.call('LPUSH', entries, id)
  if has_marks then redis.call('SREM', done, id) end
end
return words
