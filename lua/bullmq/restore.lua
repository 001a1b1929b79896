-- Restore deleted jobs whose id is free.
--
-- A child is not restored, because its parent has continued without it. Neither is a parent whose children had not run. A job that was
-- waiting is waiting again, whether the queue is paused or not.
--
-- moves    -> delayed | prioritized | wait | paused | active | completed | failed
-- writes   marker events
-- derived  <prefix>:<queue>:<id>
--          <prefix>:<queue>:<id>:logs
--          <prefix>:<queue>:<id>:dependencies
--          <prefix>:<queue>:<id>:processed
--          <prefix>:<queue>:<id>:failed
--          <prefix>:<queue>:<id>:unsuccessful
--          <prefix>:<queue>:de:<dedup>
--          <prefix>:<queue>:dn:<dedup>
-- KEYS     delayed waiting_children prioritized wait paused active completed failed meta pc marker events
-- ARGV     p     str  prefix of all keys of the queue: bull:mail:
--          each  (id bytes, place str, score str, record? bytes, body? bytes, errors? bytes)  as `records` returned it
-- returns each  moved   (place str)  restored
--               exists  the id exists
--               taken   another job has its deduplication key now
--               flow    it is part of a flow, which has continued without it
-- include: keys, columns, queue_keys, batch, key_types(delayed waiting_children prioritized wait paused active completed failed)
-- include: find_place, unpacked, add_event, wake_workers, this_queue, wake_when_due, put_back
for at = 2, #ARGV, columns do
  local id, place, score, record, body, errors = unpack(ARGV, at, at + 5)
  local hash, rest, held = unpacked(record), unpacked(body), unpacked(errors)
  local fault = #id < 1 and 'an id has at least 1 byte'
    or not sets[place] and not lists[place] and 'there is no place of that name'
    or lists[place] and not string.find(score, '^%d+$') and 'the score of a job in a list is its position'
    or not (tonumber(score) and string.find(score, '^[%d.e+-]+$')) and score ~= 'inf' and score ~= '-inf' and 'the score is a number'
    or (not hash or #hash % 2 == 1) and 'the record is not one'
    or (not rest or #rest ~= 6 and #rest ~= 0) and 'the body is not one'
    or (not held or #held ~= 2 and #held ~= 0 or #held == 2 and not string.find(held[2], '^%d*$')) and 'the deduplication key is not one'
  for i, part in ipairs(rest or {}) do
    local list = unpacked(part)
    fault = fault or (not list or i > 1 and i < 6 and #list % 2 == 1) and 'the body is not one'
  end
  if fault then return redis.error_reply('ERR row ' .. (at + 4) / columns .. ': ' .. fault .. '; nothing was changed') end
end

local function is_of_flow(hash, rest, place)
  for i = 1, #hash, 2 do
    if hash[i] == 'parentKey' and hash[i + 1] ~= '' then return true end
  end
  return place == 'waiting_children' or #rest == 6 and rest[6] ~= ''
end
local function deid_of(hash)
  for i = 1, #hash, 2 do
    if hash[i] == 'deid' then return hash[i + 1] end
  end
  return ''
end
local replies = {}
for at = 2, #ARGV, columns do
  local id, place, score, record, body, errors = unpack(ARGV, at, at + 5)
  local key, hash, rest = p .. id, unpacked(record), unpacked(body)
  if redis.call('EXISTS', key) == 1 or find_place(id) then
    replies[#replies + 1] = 'exists'
  elseif is_of_flow(hash, rest, place) then
    replies[#replies + 1] = 'flow'
  elseif dedup_holder(errors) then
    replies[#replies + 1] = 'taken'
  else
    for i = 1, #hash, 1000 do redis.call('HSET', key, unpack(hash, i, math.min(i + 999, #hash))) end -- Lua fails to unpack more than about 8000 values
    for _, line in ipairs(unpacked(rest[1] or '')) do redis.call('RPUSH', key .. ':logs', line) end
    for part, name in pairs({[2] = key .. ':processed', [3] = key .. ':failed', [5] = p .. 'dn:' .. deid_of(hash)}) do
      local pairs_of = unpacked(rest[part] or '')
      for i = 1, #pairs_of, 2 do redis.call('HSET', name, pairs_of[i], pairs_of[i + 1]) end
    end
    local unsuccessful = unpacked(rest[4] or '')
    for i = 1, #unsuccessful, 2 do redis.call('ZADD', key .. ':unsuccessful', unsuccessful[i + 1], unsuccessful[i]) end
    set_dedup(id, errors)
    replies[#replies + 1] = {'moved', put_back(id, place, score, 'unknown', 0)}
  end
end
return replies
