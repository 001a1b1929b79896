-- Make waiting jobs ready now.
--
-- moves    scheduled deferred -> queued
-- KEYS     scheduled  list  ids
--          deferred  list  ids of all queues
--          queued  list  ids
-- ARGV     each (id bytes)
-- returns each  moved  done
--               gone   no such job
local outcomes = {}
for _, id in ipairs(ARGV) do
  local word = 'gone'
  for at = 1, 2 do
    if word == 'gone' and redis.call('LREM', KEYS[at], 1, id) == 1 then
      word = 'moved'
      redis.call('RPUSH', KEYS[3], id)
    end
  end
  outcomes[#outcomes + 1] = word
end
return outcomes
