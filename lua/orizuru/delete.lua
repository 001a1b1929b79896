-- Delete jobs from the source or from the lists of their consumers.
--
-- A consumer that works on a deleted job finishes it, and its later ack does nothing. The source is searched from its
-- next job on. After half a million entries in one call, the remaining rows reply `later`.
--
-- moves    source processing unacked ->
-- derived  orizuru:consumers:<worker>:processing
--          orizuru:consumers:<worker>:unacked
-- KEYS     source consumers
-- ARGV     place  str  source, processing or unacked
--          each   (member bytes, worker bytes)
-- returns each  moved  deleted
--               gone   it is not there
--               later  this call has searched enough entries; send the row again
-- include: keys, args, key_types(source consumers)
if place ~= 'source' and place ~= 'processing' and place ~= 'unacked' then
  return redis.error_reply('ERR the place is source, processing or unacked; nothing was changed')
end
-- include: batch_size
local function key_of(worker) return place == 'source' and source or 'orizuru:consumers:' .. worker .. ':' .. place end
for i = 3, #ARGV, 2 do
  if type(redis.pcall('LLEN', key_of(ARGV[i]))) ~= 'number' then
    return redis.error_reply('ERR key ' .. key_of(ARGV[i]) .. ' holds no list; nothing was changed')
  end
end

local outcomes, searched = {}, 0
for i = 2, #ARGV, 2 do
  local member, key = ARGV[i], key_of(ARGV[i + 1])
  if searched >= 500000 then
    outcomes[#outcomes + 1] = 'later'
  else
    local length, at = redis.call('LLEN', key), redis.call('LPOS', key, member, 'RANK', -1)
    searched = searched + length - (at or 0)
    if at then redis.call('LREM', key, -1, member) end
    outcomes[#outcomes + 1] = at and 'moved' or 'gone'
  end
end
return outcomes
