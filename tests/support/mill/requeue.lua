-- Requeue jobs that ended.
--
-- moves    finished failed canceled -> queued
-- KEYS     finished  list  ids
--          failed  list  ids
--          canceled  list  ids
--          queued  list  ids
-- ARGV     each (id bytes)
-- returns each  moved  done
--               gone   no such job
local outcomes = {}
for _, id in ipairs(ARGV) do
  local word = 'gone'
  for at = 1, 3 do
    if word == 'gone' and redis.call('LREM', KEYS[at], 1, id) == 1 then
      word = 'moved'
      redis.call('RPUSH', KEYS[4], id)
    end
  end
  outcomes[#outcomes + 1] = word
end
return outcomes
