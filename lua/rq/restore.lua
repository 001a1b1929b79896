-- Restore what was deleted, where the id is free.
--
-- moves    -> scheduled | deferred | ready_to_enqueue | queued | finished | failed | canceled
-- writes   queues
-- derived  <prefix>:job:<id>
--          <prefix>:job:<id>:dependents
--          <prefix>:job::<id>:dependencies
--          <prefix>:results:<id>
--          <prefix>:group:<group>
-- KEYS     scheduled         zset  id by due (s)
--          deferred          zset  id by since when (s)
--          ready_to_enqueue  zset  id by since when (s)
--          queued            list  ids, the next one first
--          finished          zset  id by when it is forgotten (s)
--          failed            zset  id by when it is forgotten (s)
--          canceled          zset  id by since when (s)
--          queues            set   keys of all queues
-- ARGV     prefix    str  before all keys: rq
--          each      (id bytes, place str, score str, record? bytes, body? bytes, errors? bytes)  as records tells of it
-- returns each  moved   (place str)  restored
--               exists  the id is taken
local scheduled, deferred, ready_to_enqueue, queued, finished, failed, canceled, queues =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local scalars, columns = 1, 6
local registries = {scheduled = scheduled, deferred = deferred, ready_to_enqueue = ready_to_enqueue, finished = finished,
  failed = failed, canceled = canceled}
for _, key in pairs(registries) do redis.call('ZCARD', key) end
redis.call('SCARD', queues)
-- block: rq_batch, rq_listed, rq_stands, rq_unpacked, rq_put_back
local rows, prefix = (#ARGV - scalars) / columns, ARGV[1]
if rows < 1 or rows > 1000 or rows ~= math.floor(rows) or prefix == '' then
  return redis.error_reply('ERR it takes the prefix, and 1 to 1000 rows, each with all of its columns; nothing was changed')
end
local length, seen_at = redis.call('LLEN', queued), nil
local reach = rows > 40 and 2500 or math.floor(200000 / math.max(2, rows)) -- from each end, in which an id is met however often
local sight = rows == 1 and 500000 or reach
local function look() -- for many, one look at both ends is cheaper than a search each
  seen_at = {}
  for _, from in ipairs({0, math.max(reach, length - reach)}) do
    for i, id in ipairs(redis.call('LRANGE', queued, from, from == 0 and reach - 1 or -1)) do
      local before = seen_at[id]
      seen_at[id] = not before and from + i - 1 or {from + i - 1, unpack(type(before) == 'table' and before or {before})}
    end
  end
end
local function positions(id)
  if rows > 40 then
    if not seen_at then look() end
    local at = seen_at[id]
    return type(at) == 'table' and at or {at}
  end
  local found = redis.call('LPOS', queued, id, 'COUNT', 0, 'MAXLEN', reach)
  for _, at in ipairs(length > reach and redis.call('LPOS', queued, id, 'RANK', -1, 'COUNT', 0, 'MAXLEN', reach) or {}) do
    if at >= reach then found[#found + 1] = at end
  end
  if #found == 0 and sight > reach and length > 2 * reach then
    found[1] = redis.call('LPOS', queued, id, 'MAXLEN', sight) or redis.call('LPOS', queued, id, 'RANK', -1, 'MAXLEN', sight) or nil
  end
  return found
end
local function place_of(id, status)
  local named = status == 'stopped' and 'failed' or status
  if registries[named] and redis.call('ZSCORE', registries[named], id) then return named end
  for _, name in ipairs({'scheduled', 'deferred', 'ready_to_enqueue', 'finished', 'failed', 'canceled'}) do
    if registries[name] and redis.call('ZSCORE', registries[name], id) then return name end
  end
  if status == 'started' then return 'started' end
  return #positions(id) > 0 and 'queued' or nil
end
local function unpacked(text) -- nothing where the text is not packed
  local list, at = {}, 1
  while at <= #text do
    local digits = string.match(text, '^(%d+):', at)
    local from = digits and at + #digits + 1
    if not from or from + tonumber(digits) - 1 > #text then return nil end
    list[#list + 1] = string.sub(text, from, from + tonumber(digits) - 1)
    at = from + tonumber(digits)
  end
  return list
end
local function put_back(id, place, score)
  local pivot = place == 'queued' and redis.call('LINDEX', queued, math.floor(tonumber(score)))
  if pivot then
    redis.call('LINSERT', queued, 'BEFORE', pivot, id)
  elseif place == 'queued' then
    redis.call('RPUSH', queued, id)
  else
    redis.call('ZADD', registries[place], score, id)
  end
  local parents = place == 'deferred' and redis.pcall('SMEMBERS', prefix .. ':job::' .. id .. ':dependencies') or {}
  for _, parent in ipairs(parents) do redis.pcall('SADD', prefix .. ':job:' .. parent .. ':dependents', id) end
end
local function expire_at(id, seconds, ...) -- an hour is left in any case: it is put back to be looked at
  local key = prefix .. ':job:' .. id
  local least = redis.call('TIME')[1] + 3600
  for _, each in ipairs({key, key .. ':dependents', prefix .. ':job::' .. id .. ':dependencies', ...}) do
    if seconds == '' then redis.call('PERSIST', each) else redis.call('EXPIREAT', each, string.format('%.0f', math.max(tonumber(seconds), least))) end
  end
end
-- end
for at = 2, #ARGV, columns do
  local id, place, score, record, body, errors = unpack(ARGV, at, at + 5)
  local hash, rest = unpacked(record), unpacked(body)
  local what = (#id < 1 or #id > 512) and 'an id has 1 to 512 bytes'
    or not registries[place] and place ~= 'queued' and 'there is no place of that name'
    or not (tonumber(score) and string.find(score, '^[%d.e+-]+$')) and score ~= 'inf' and 'the score is a number'
    or (not hash or #hash % 2 == 1 or #hash > 2000) and 'the record is not one'
    or (not rest or #rest ~= 3 and #rest ~= 0) and 'the body is not one'
    or (#errors > 12 or string.find(errors, '%D')) and 'the end of its time is in seconds'
  for _, part in ipairs(rest or {}) do what = what or not unpacked(part) and 'the body is not one' end
  if what then return redis.error_reply('ERR row ' .. (at + 4) / columns .. ': ' .. what .. '; nothing was changed') end
end

local words, restored = {}, 0
for at = 2, #ARGV, columns do
  local id, place, score, record, body, errors = unpack(ARGV, at, at + 5)
  local key, hash, rest = prefix .. ':job:' .. id, unpacked(record), unpacked(body)
  if redis.call('EXISTS', key) == 1 or place_of(id, '') then
    words[#words + 1] = 'exists'
  else
    words[#words + 1], restored = {'moved', place}, restored + 1
    if #hash > 0 then redis.call('HSET', key, unpack(hash)) end
    for i = 1, #hash, 2 do
      if hash[i] == 'group_id' and hash[i + 1] ~= '' then redis.pcall('SADD', prefix .. ':group:' .. hash[i + 1], id) end
    end
    local results = prefix .. ':results:' .. id
    for i, set in ipairs({key .. ':dependents', prefix .. ':job::' .. id .. ':dependencies'}) do
      for _, other in ipairs(unpacked(rest[i] or '')) do redis.call('SADD', set, other) end
    end
    for _, entry in ipairs(unpacked(rest[3] or '')) do
      local told = unpacked(entry)
      redis.pcall('XADD', results, told[1], unpack(unpacked(told[2])))
    end
    put_back(id, place, score)
    expire_at(id, errors, results)
  end
end
if restored > 0 then redis.call('SADD', queues, queued) end
return words
