-- Requeue items that are done, so that they run again.
--
-- moves    done -> todos
-- KEYS     todos in_progress done
-- ARGV     each         (member bytes)
-- returns each  moved        requeued
--               wrong_place  it is to do or in progress
--               gone         no such item
-- include: keys, key_types, batch_size(items)
local outcomes, back = {}, {}
for _, item in ipairs(ARGV) do
  local word = 'moved'
  if redis.call('SISMEMBER', in_progress, item) == 1 or back[item] then
    word = 'wrong_place'
  elseif redis.call('SISMEMBER', done, item) == 0 then
    word = redis.call('SISMEMBER', todos, item) == 1 and 'wrong_place' or 'gone'
  else
    back[item], back[#back + 1] = true, item
  end
  outcomes[#outcomes + 1] = word
end

for i = 1, #back do redis.call('SMOVE', done, todos, back[i]) end
return outcomes
