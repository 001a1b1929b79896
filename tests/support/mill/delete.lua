-- Delete jobs wherever they stand, but for those that run.
--
-- moves    scheduled deferred queued ready intermediate finished failed canceled ->
-- KEYS     scheduled  list  ids
--          deferred  list  ids of all queues
--          queued  list  ids
--          ready  list  ids
--          intermediate  list  ids
--          finished  list  ids
--          failed  list  ids
--          canceled  list  ids
-- ARGV     each (id bytes)
-- returns each  moved  done
--               gone   no such job
local outcomes = {}
for _, id in ipairs(ARGV) do
  local word = 'gone'
  for at = 1, 8 do
    if word == 'gone' and redis.call('LREM', KEYS[at], 1, id) == 1 then
      word = 'moved'
      
    end
  end
  outcomes[#outcomes + 1] = word
end
return outcomes
