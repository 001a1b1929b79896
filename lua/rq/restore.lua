-- Restore deleted jobs whose id is free.
--
-- moves    -> scheduled | deferred | ready_to_enqueue | queued | finished | failed | canceled
-- writes   queues
-- derived  <prefix>:job:<id>
--          <prefix>:job:<id>:dependents
--          <prefix>:job::<id>:dependencies
--          <prefix>:results:<id>
--          <prefix>:group:<group>
-- KEYS     scheduled deferred ready_to_enqueue queued finished failed canceled queues
-- ARGV     prefix    str  prefix of all keys: rq
--          each      (id bytes, place str, score str, record? bytes, body? bytes, errors? bytes)  as `records` returned it
-- returns each  moved   (place str)  restored
--               exists  the id exists
-- include: keys, columns, queue_keys, key_types, batch, find_place, unpacked, put_back
for at = 2, #ARGV, columns do
  local id, place, score, record, body, errors = unpack(ARGV, at, at + 5)
  local hash, rest = unpacked(record), unpacked(body)
  local fault = #id < 1 and 'an id has at least 1 byte'
    or not registries[place] and place ~= 'queued' and 'there is no place of that name'
    or place == 'queued' and not string.find(score, '^%d+$') and 'the score of a queued job is its position'
    or not (tonumber(score) and string.find(score, '^[%d.e+-]+$')) and score ~= 'inf' and score ~= '-inf' and 'the score is a number'
    or (not hash or #hash % 2 == 1) and 'the record is not one'
    or (not rest or #rest ~= 3 and #rest ~= 0) and 'the body is not one'
    or (#errors > 15 or string.find(errors, '%D')) and 'the end of its time is in seconds'
  for _, part in ipairs(rest or {}) do fault = fault or not unpacked(part) and 'the body is not one' end
  if fault then return redis.error_reply('ERR row ' .. (at + 4) / columns .. ': ' .. fault .. '; nothing was changed') end
end

local replies, restored = {}, 0
for at = 2, #ARGV, columns do
  local id, place, score, record, body, errors = unpack(ARGV, at, at + 5)
  local key, hash, rest = prefix .. ':job:' .. id, unpacked(record), unpacked(body)
  if redis.call('EXISTS', key) == 1 or find_place(id, '') then
    replies[#replies + 1] = 'exists'
  else
    replies[#replies + 1], restored = {'moved', place}, restored + 1
    for i = 1, #hash, 1000 do redis.call('HSET', key, unpack(hash, i, math.min(i + 999, #hash))) end -- Lua fails to unpack more than about 8000 values
    for i = 1, #hash, 2 do
      if hash[i] == 'group_id' and hash[i + 1] ~= '' then redis.pcall('SADD', prefix .. ':group:' .. hash[i + 1], id) end
    end
    local results = prefix .. ':results:' .. id
    for i, set in ipairs({key .. ':dependents', prefix .. ':job::' .. id .. ':dependencies'}) do
      for _, other in ipairs(unpacked(rest[i] or '')) do redis.call('SADD', set, other) end
    end
    for _, entry in ipairs(unpacked(rest[3] or '')) do
      local values = unpacked(entry)
      redis.pcall('XADD', results, values[1], unpack(unpacked(values[2])))
    end
    put_back(id, place, score)
    expire_at(id, errors, results)
  end
end
if restored > 0 then redis.call('SADD', queues, queued) end
return replies
