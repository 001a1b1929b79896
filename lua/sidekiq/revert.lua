-- Revert jobs to their state before a verb moved or rewrote them, if they have not changed since.
--
-- Deleted jobs come back with `restore`. A job of the queue returns to the position that its score gives: the number of
-- jobs that run earlier.
--
-- moves    schedule retry queue dead -> schedule | retry | queue | dead
-- writes   queues
-- KEYS     schedule retry queue dead queues
-- ARGV     queue     str   its name
--          each      (left str, known bytes, place str, score str, line bytes)  as `records` returned them
-- returns each  moved    (place str)  reverted
--               changed  it has changed since
-- include: keys
local zsets = {schedule = schedule, retry = retry, dead = dead}
-- include: columns
for _, key in pairs(zsets) do redis.call('ZCARD', key) end
-- include: key_types(queues), batch, take_out, put_back
for at = 2, #ARGV, columns do
  local left, known, place, score, line = unpack(ARGV, at, at + 4)
  local fault = fault_of(place, score) or fault_of(left, '0') or (known == '' or line == '') and 'a job has bytes'
  if fault then return redis.error_reply('ERR row ' .. (at + 3) / columns .. ': ' .. fault .. '; nothing was changed') end
end
local outcomes, back, inside, leaving, spots, seen = {}, {}, {}, {}, {}, {}
for at = 2, #ARGV, columns do
  local left, known, place, score, line = unpack(ARGV, at, at + 4)
  local from, to, stays = zsets[left], zsets[place], left == place and known == line
  local position = from and not seen[left .. known] and redis.call('ZSCORE', from, known)
  if to and not stays and redis.call('ZSCORE', to, line) then position = nil elseif not from then position = next_spot(known) end
  outcomes[#outcomes + 1] = position and {'moved', place} or 'changed'
  if position then
    if from then seen[left .. known] = true end
    if not from and not to then
      inside[#inside + 1] = {tonumber(score), line, known, length - 1 - position <= tonumber(score)}
    else
      back[#back + 1] = {place, score, line}
    end
    if from and not stays then leaving[#leaving + 1] = {from, known} end
    if to and not from then spots[#spots + 1] = {position, known} end
  end
end
if #back + #inside == 0 then return outcomes end
table.sort(inside, function(a, b) return a[1] < b[1] end)
local ahead = 0 -- jobs that run too early, because they were bumped; the others run too late
for _, job in ipairs(inside) do ahead = ahead + (job[4] and 1 or 0) end

redis.call('ZREMRANGEBYRANK', dead, 1, 0) -- removes nothing, but lets the drain continue over maxmemory
redis.call('SADD', queues, ARGV[1])
put_back(back)
for _, job in ipairs(leaving) do redis.call('ZREM', job[1], job[2]) end
take_out(spots)
for _, job in ipairs(inside) do -- The position counts the jobs that still run earlier.
  put_back({{'queue', tostring(job[1] + ahead), job[2]}})
  redis.call('LREM', queue, job[4] and -1 or 1, job[3])
  if job[4] then ahead = ahead - 1 end
end
return outcomes
