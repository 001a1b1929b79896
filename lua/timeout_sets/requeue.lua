-- Requeue items that are done, so that they run again.
--
-- moves    done -> todos
-- KEYS     todos        set   items to do
--          in_progress  set   items that workers hold
--          done         set   items that are done
-- ARGV     each         (member bytes)
-- returns each  moved        requeued
--               wrong_place  it is to do or in progress
--               gone         no such item
-- include: keys, key_types
if #ARGV < 1 or #ARGV > 1000 then
  return redis.error_reply('ERR a batch has 1 to 1000 items; nothing was changed')
end
local words, back = {}, {}
for _, item in ipairs(ARGV) do
  local word = 'moved'
  if redis.call('SISMEMBER', in_progress, item) == 1 or back[item] then
    word = 'wrong_place'
  elseif redis.call('SISMEMBER', done, item) == 0 then
    word = redis.call('SISMEMBER', todos, item) == 1 and 'wrong_place' or 'gone'
  else
    back[item], back[#back + 1] = true, item
  end
  words[#words + 1] = word
end

for i = 1, #back do redis.call('SMOVE', done, todos, back[i]) end
return words
