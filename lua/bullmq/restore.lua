-- Restore what was deleted, where the id is free.
--
-- A child does not come back, since its parent was told that it is gone, and neither does a parent whose children were still to run.
-- A job that waited waits again, be the queue paused or not.
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
-- ARGV     p     str  before all keys of the queue: bull:mail:
--          each  (id bytes, place str, score str, record? bytes, body? bytes, errors? bytes)  as records tells of it
-- returns each  moved   (place str)  restored
--               exists  the id is taken
--               taken   another job has its deduplication key since
--               flow    it is of a flow, which went on without it
local delayed, waiting_children, prioritized, wait, paused, active, completed, failed, meta, pc, marker, events =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local scalars, columns = 1, 6
-- block: bm_batch
local rows, p = (#ARGV - scalars) / columns, ARGV[1]
if rows < 1 or rows > 1000 or rows ~= math.floor(rows) or p == '' or string.sub(KEYS[1], 1, #p) ~= p then
  return redis.error_reply('ERR it takes what the keys begin with, and 1 to 1000 rows, each with all of its columns; nothing was changed')
end
-- end
local sets = {delayed = delayed, waiting_children = waiting_children, prioritized = prioritized, completed = completed, failed = failed}
local lists = {wait = wait, paused = paused, active = active}
-- block: bm_places, rq_unpacked, bm_door, bm_tell, bm_wake, bm_alarm
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
local function alarm() -- workers sleep until the first is due
  local score = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2]
  if score then redis.call('ZADD', marker, string.format('%.0f', math.floor(tonumber(score) / 4096)), '1') end
end
-- end
local own = door(p, {wait = wait, paused = paused, prioritized = prioritized, active = active, meta = meta, pc = pc, marker = marker, events = events})
-- block: bm_put_back
local function holder(errors) -- who holds the deduplication key that a job is to have again
  local held = unpacked(errors)
  return held and held[1] and (redis.pcall('GET', p .. 'de:' .. held[1]) or nil)
end
local function hold(id, errors)
  local held, clock = unpacked(errors), redis.call('TIME')
  if not held or not held[1] or redis.pcall('GET', p .. 'de:' .. held[1]) then return end
  local left_ms = held[2] ~= '' and tonumber(held[2]) - clock[1] * 1000 - math.floor(clock[2] / 1000)
  if left_ms and left_ms > 0 then
    redis.call('SET', p .. 'de:' .. held[1], id, 'PX', string.format('%.0f', left_ms))
  elseif not left_ms then
    redis.call('SET', p .. 'de:' .. held[1], id)
  end
end
local function put_back(id, place, score, prev, aside) -- in a list the score is how many jobs stand before it; `aside` wait at its head
  if sets[place] then
    redis.call('ZADD', sets[place], score, id)
  else
    local key = place == 'active' and lists.active or own.list -- the queue may have been paused, or resumed, since
    local before, others = math.floor(tonumber(score)), redis.call('LLEN', key) - aside
    local pivot = before < others and redis.call('LINDEX', key, -before - 1) or aside > 0 and redis.call('LINDEX', key, aside - 1)
    if pivot then redis.call('LINSERT', key, 'AFTER', pivot, id) else redis.call('LPUSH', key, id) end
  end
  if place == 'delayed' then
    alarm()
    tell(own, 'delayed', 'jobId', id, 'delay', string.format('%.0f', math.floor(tonumber(score) / 4096)))
  elseif place == 'wait' or place == 'paused' or place == 'prioritized' then
    wake(own)
    tell(own, 'waiting', 'jobId', id, 'prev', prev)
  end
  return (place == 'wait' or place == 'paused') and own.place or place
end
-- end
for at = 2, #ARGV, columns do
  local id, place, score, record, body, errors = unpack(ARGV, at, at + 5)
  local hash, rest, held = unpacked(record), unpacked(body), unpacked(errors)
  local what = (#id < 1 or #id > 512) and 'an id has 1 to 512 bytes'
    or not sets[place] and not lists[place] and 'there is no place of that name'
    or not (tonumber(score) and string.find(score, '^%d[%d.e+]*$')) and 'the score is a number'
    or (not hash or #hash % 2 == 1 or #hash > 2000) and 'the record is not one'
    or (not rest or #rest ~= 6 and #rest ~= 0) and 'the body is not one'
    or (not held or #held ~= 2 and #held ~= 0 or #held == 2 and not string.find(held[2], '^%d*$')) and 'the deduplication key is not one'
  for i, part in ipairs(rest or {}) do
    local list = unpacked(part)
    what = what or (not list or i > 1 and i < 6 and #list % 2 == 1) and 'the body is not one'
  end
  if what then return redis.error_reply('ERR row ' .. (at + 4) / columns .. ': ' .. what .. '; nothing was changed') end
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
local words = {}
for at = 2, #ARGV, columns do
  local id, place, score, record, body, errors = unpack(ARGV, at, at + 5)
  local key, hash, rest = p .. id, unpacked(record), unpacked(body)
  if redis.call('EXISTS', key) == 1 or place_of(id) then
    words[#words + 1] = 'exists'
  elseif is_of_flow(hash, rest, place) then
    words[#words + 1] = 'flow'
  elseif holder(errors) then
    words[#words + 1] = 'taken'
  else
    if #hash > 0 then redis.call('HSET', key, unpack(hash)) end
    for _, line in ipairs(unpacked(rest[1] or '')) do redis.call('RPUSH', key .. ':logs', line) end
    for part, name in pairs({[2] = key .. ':processed', [3] = key .. ':failed', [5] = p .. 'dn:' .. deid_of(hash)}) do
      local pairs_of = unpacked(rest[part] or '')
      for i = 1, #pairs_of, 2 do redis.call('HSET', name, pairs_of[i], pairs_of[i + 1]) end
    end
    local unsuccessful = unpacked(rest[4] or '')
    for i = 1, #unsuccessful, 2 do redis.call('ZADD', key .. ':unsuccessful', unsuccessful[i + 1], unsuccessful[i]) end
    hold(id, errors)
    words[#words + 1] = {'moved', put_back(id, place, score, 'unknown', 0)}
  end
end
return words
