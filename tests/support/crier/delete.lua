-- Delete jobs that wait.
--
-- moves    waiting ->
-- KEYS     waiting  list  ids
-- ARGV     each (id bytes)
-- returns each  moved  done
--               gone   no such job
local outcomes = {}
for _, id in ipairs(ARGV) do
  outcomes[#outcomes + 1] = redis.call('LREM', KEYS[1], 1, id) == 1 and 'moved' or 'gone'
end
return outcomes
