-- Bump queued jobs to the head of their queue, the last one named first of all.
--
-- An id is looked for near both ends of the queue.
--
-- moves    queued -> queued
-- derived  <prefix>:job:<id>
-- KEYS     scheduled         zset  id by due (s)
--          deferred          zset  id by since when (s)
--          ready_to_enqueue  zset  id by since when (s)
--          queued            list  ids, the next one first
--          finished          zset  id by when it is forgotten (s)
--          failed            zset  id by when it is forgotten (s)
--          canceled          zset  id by since when (s)
-- ARGV     prefix   str  before all keys: rq
--          each     (id bytes)
-- returns each  moved        bumped
--               wrong_place  (place str)  it is not in the queue
--               taken        a worker has just taken it
--               limited      it waits for a slot of its rate limit, which only RQ may give
--               later        the queue is too long to look for so many at once
--               gone         no such job
local scheduled, deferred, ready_to_enqueue, queued, finished, failed, canceled =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local scalars, columns = 1, 1
local registries = {scheduled = scheduled, deferred = deferred, ready_to_enqueue = ready_to_enqueue, finished = finished,
  failed = failed, canceled = canceled}
for _, key in pairs(registries) do redis.call('ZCARD', key) end
-- block: rq_batch, rq_fields, rq_listed, rq_stands, rq_take_out
local rows, prefix = (#ARGV - scalars) / columns, ARGV[1]
if rows < 1 or rows > 1000 or rows ~= math.floor(rows) or prefix == '' then
  return redis.error_reply('ERR it takes the prefix, and 1 to 1000 rows, each with all of its columns; nothing was changed')
end
local function fields(id, ...)
  local key = prefix .. ':job:' .. id
  return redis.pcall('HEXISTS', key, 'data') == 1 and redis.call('HMGET', key, ...) or nil
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
local function take_out(spots, pushed) -- by position, since a search for each would cost more; `pushed` came before them
  local near, far = 0, 0
  for _, at in ipairs(spots) do
    redis.call('LSET', queued, at + pushed, '')
    if at * 2 < length then near = near + 1 else far = far + 1 end
  end
  if near > 0 then redis.call('LREM', queued, near, '') end
  if far > 0 then redis.call('LREM', queued, -far, '') end
end
-- end
local words, ids, spots, seen = {}, {}, {}, {}
for at = 2, #ARGV do
  local id = ARGV[at]
  local found = positions(id)
  if #found > 0 then
    words[#words + 1] = 'moved'
    if not seen[id] then
      seen[id], ids[#ids + 1] = true, id
      for _, spot in ipairs(found) do spots[#spots + 1] = spot end
    end
  else
    local told = fields(id, 'status')
    local place = place_of(id, told and told[1] or '')
    words[#words + 1] = place and {'wrong_place', place} or not told and 'gone' or told[1] == 'rate_limited' and 'limited'
      or length > 2 * sight and 'later' or 'taken'
  end
end
if #ids == 0 then return words end

redis.call('ZREM', canceled, '') -- frees nothing: this goes on over maxmemory
redis.call('LPUSH', queued, unpack(ids))
take_out(spots, #ids)
return words
