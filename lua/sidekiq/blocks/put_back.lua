-- Put jobs back to their former places.
--
-- needs    zsets queue rows
-- gives    fault_of  what is wrong with a place and a score; nil if both are valid
--          put_back  takes rows {place, score, bytes}; in the list of a queue, the score is the number of jobs that run earlier
local function fault_of(place, score)
  if not zsets[place] and place ~= 'queue' then return 'there is no place of that name' end
  local number = string.find(score, '^[%d.e+-]+$') and tonumber(score)
  if not number or place == 'queue' and (number < 0 or number ~= math.floor(number)) then return 'the score is a number' end
end
local function put_back(jobs)
  -- Each position counts the jobs that run earlier, so these come first.
  table.sort(jobs, function(a, b) return tonumber(a[2]) < tonumber(b[2]) end)
  for _, job in ipairs(jobs) do
    local key, before = zsets[job[1]], tonumber(job[2])
    local pivot = not key and before > 0 and redis.call('LINDEX', queue, -before)
    if key then
      redis.call('ZADD', key, job[2], job[3])
    elseif before > 0 and not pivot then
      redis.call('LPUSH', queue, job[3])
    elseif pivot and redis.call('LLEN', queue) * rows <= 1000000 then -- LINSERT has to search for the pivot.
      redis.call('LINSERT', queue, 'BEFORE', pivot, job[3])
    else
      redis.call('RPUSH', queue, job[3])
    end
  end
end
