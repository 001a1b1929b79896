-- Promote delayed jobs: they run now.
--
-- A job keeps its priority. The next job of a scheduler runs now, too, and the one after it comes at its time. A parent that waits for
-- its children is not promoted: it would run without their results.
--
-- moves    delayed -> wait | paused | prioritized
-- writes   pc marker events
-- derived  <prefix>:<queue>:<id>
-- KEYS     delayed           zset    id by due (ms × 4096)
--          waiting_children  zset    id by since when (ms)
--          prioritized       zset    id by priority × 2^32, then arrival
--          wait              list    ids, the next one last
--          paused            list    ids while BullMQ 5 is paused, the next one last
--          active            list    ids that run, the oldest run last
--          completed         zset    id by when (ms)
--          failed            zset    id by when (ms)
--          meta              hash    version, paused, limits
--          pc                string  the last number of a job with a priority
--          marker            zset    what workers wait for: there is work, or when there will be
--          events            stream  what happened
-- ARGV     p        str    before all keys of the queue: bull:mail:
--          each     (id bytes)
-- returns each  moved        promoted
--               wrong_place  (place str)  it waits for no time
--               ghost        its hash is gone: it can only be deleted
--               later        the queue is too long to look for so many at once
--               gone         no such job
local delayed, waiting_children, prioritized, wait, paused, active, completed, failed, meta, pc, marker, events =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local scalars, columns = 1, 1
-- block: bm_batch
local rows, p = (#ARGV - scalars) / columns, ARGV[1]
if rows < 1 or rows > 1000 or rows ~= math.floor(rows) or p == '' or string.sub(KEYS[1], 1, #p) ~= p then
  return redis.error_reply('ERR it takes what the keys begin with, and 1 to 1000 rows, each with all of its columns; nothing was changed')
end
-- end
local sets = {delayed = delayed, waiting_children = waiting_children, prioritized = prioritized, completed = completed, failed = failed}
local lists = {wait = wait, paused = paused, active = active}
-- block: bm_job, bm_places, bm_hidden, bm_door, bm_tell, bm_wake, bm_push
local function fields(id, ...)
  local key = p .. id
  return redis.pcall('HEXISTS', key, 'name') == 1 and redis.call('HMGET', key, ...) or nil
end
local lengths, seen_at = {}, {}
for _, key in pairs(sets) do redis.call('ZCARD', key) end
for name, key in pairs(lists) do lengths[name] = redis.call('LLEN', key) end
local reach = rows > 40 and 2500 or math.floor(200000 / math.max(2, rows)) -- from each end, in which an id is met however often
local sight = rows == 1 and 500000 or reach
local function look(name) -- for many, one look at both ends is cheaper than a search each
  seen_at[name] = {}
  for _, from in ipairs({0, math.max(reach, lengths[name] - reach)}) do
    for i, id in ipairs(redis.call('LRANGE', lists[name], from, from == 0 and reach - 1 or -1)) do
      local before = seen_at[name][id]
      seen_at[name][id] = before and {from + i - 1, unpack(before)} or {from + i - 1}
    end
  end
end
local function spots_of(name, id)
  local key, length = lists[name], lengths[name]
  if length == 0 then return {} end
  if rows > 40 then
    if not seen_at[name] then look(name) end
    return seen_at[name][id] or {}
  end
  local found = redis.call('LPOS', key, id, 'COUNT', 0, 'MAXLEN', reach)
  for _, at in ipairs(length > reach and redis.call('LPOS', key, id, 'RANK', -1, 'COUNT', 0, 'MAXLEN', reach) or {}) do
    if at >= reach then found[#found + 1] = at end
  end
  if #found == 0 and sight > reach and length > 2 * reach then
    found[1] = redis.call('LPOS', key, id, 'RANK', -1, 'MAXLEN', sight) or redis.call('LPOS', key, id, 'MAXLEN', sight) or nil
  end
  return found
end
local function place_of(id)
  for name, key in pairs(sets) do
    if redis.call('ZSCORE', key, id) then return name end
  end
  for name in pairs(lists) do
    if #spots_of(name, id) > 0 then return name end
  end
end
local function is_hidden() -- whether an id that was not found may stand in the middle of a list
  for _, length in pairs(lengths) do
    if length > 2 * sight then return true end
  end
  return false
end
local doors = {}
local function door(q, keys) -- read before the first write, so that another program's key is an error
  if doors[q] then return doors[q] end
  if not keys then
    keys = {}
    for _, name in ipairs({'wait', 'paused', 'prioritized', 'active', 'meta', 'pc', 'marker', 'events'}) do keys[name] = q .. name end
  end
  local told = redis.call('HMGET', keys.meta, 'paused', 'concurrency', 'version', 'opts.maxLenEvents')
  local aside = redis.call('LLEN', keys.paused)
  redis.call('LLEN', keys.wait)
  redis.call('ZCARD', keys.prioritized)
  redis.call('ZCARD', keys.marker)
  redis.call('GET', keys.pc)
  redis.call('XLEN', keys.events)
  -- BullMQ 5 keeps what waits in `paused` while the queue is paused, and takes `wait` away when it is resumed. Both versions empty
  -- `paused` then, so that it is safe for who tells no version.
  local is_old = (tonumber(string.match(told[3] or '', '^bullmq:(%d+)') or '') or 5) < 6
  local is_aside = told[1] and (is_old or aside > 0)
  doors[q] = {
    keys = keys, is_paused = told[1] and true or false, most = tonumber(told[2] or ''), running = redis.call('LLEN', keys.active),
    list = is_aside and keys.paused or keys.wait, place = is_aside and 'paused' or 'wait', is_old = is_old, length = tonumber(told[4] or '') or 10000,
  }
  return doors[q]
end
local function tell(to, event, ...) -- a verb is not refused for an event that cannot be told
  redis.pcall('XADD', to.keys.events, 'MAXLEN', '~', string.format('%.0f', to.length), '*', 'event', event, ...)
end
local function is_held(to) return to.is_paused or to.most ~= nil and to.running >= to.most end
local function wake(to) -- without a marker workers sleep on for seconds
  if not is_held(to) then redis.call('ZADD', to.keys.marker, 0, '0') end
end
local function push(to, id, rank, at_front)
  if rank > 0 then
    local count = at_front and 0 or redis.call('INCR', to.keys.pc) % 4294967296
    redis.call('ZADD', to.keys.prioritized, string.format('%.0f', rank * 4294967296 + count), id)
  elseif at_front then
    redis.call('RPUSH', to.list, id)
  else
    redis.call('LPUSH', to.list, id)
  end
  wake(to)
end
-- end
local own = door(p, {wait = wait, paused = paused, prioritized = prioritized, active = active, meta = meta, pc = pc, marker = marker, events = events})
local words, back, seen = {}, {}, {}
for at = 2, #ARGV do
  local id = ARGV[at]
  local place = seen[id] or place_of(id)
  local told = fields(id, 'priority')
  if not place then
    words[#words + 1] = is_hidden() and 'later' or 'gone'
  elseif place ~= 'delayed' then
    words[#words + 1] = {'wrong_place', place}
  elseif not told then
    words[#words + 1] = 'ghost'
  else
    words[#words + 1], seen[id], back[#back + 1] = 'moved', own.place, {id, tonumber(told[1] or '') or 0}
  end
end
if #back == 0 then return words end

redis.call('ZREM', delayed, '') -- frees nothing: a drain may go on over maxmemory
for _, job in ipairs(back) do
  redis.call('HSET', p .. job[1], 'delay', 0)
  push(own, job[1], job[2], false)
  redis.call('ZREM', delayed, job[1])
  tell(own, 'waiting', 'jobId', job[1], 'prev', 'delayed')
end
return words
