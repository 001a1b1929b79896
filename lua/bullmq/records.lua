-- All that Redis holds of some jobs, byte for byte, so that a change of them can be undone.
--
-- Records and bodies only when asked for; once the answer has `most` bytes, the rows that follow answer `later`. The score of a job in
-- a list is how many stand before it. `record` is the hash; `body` the logs, what its children returned, how they failed, what waits
-- behind its deduplication key, and the children that are still to run; `line` the fields that verbs change; all are packed: each
-- string behind its length. `errors` is the deduplication key that it holds, and until when.
--
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
-- ARGV     p         str   before all keys of the queue: bull:mail:
--          whole?    bool  with records and bodies
--          most      int   bytes of one answer; a single job may have more
--          each      (id bytes)
-- returns each  here   (place str, score str, record bytes, body bytes, line bytes, errors bytes)  here it is
--               later  the answer is long enough; ask for it again
--               gone   no such job
local delayed, waiting_children, prioritized, wait, paused, active, completed, failed =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local whole = ARGV[2] == '1'
local scalars, columns = 3, 1
-- block: bm_batch
local rows, p = (#ARGV - scalars) / columns, ARGV[1]
if rows < 1 or rows > 1000 or rows ~= math.floor(rows) or p == '' or string.sub(KEYS[1], 1, #p) ~= p then
  return redis.error_reply('ERR it takes what the keys begin with, and 1 to 1000 rows, each with all of its columns; nothing was changed')
end
-- end
local sets = {delayed = delayed, waiting_children = waiting_children, prioritized = prioritized, completed = completed, failed = failed}
local lists = {wait = wait, paused = paused, active = active}
-- block: bm_places, rq_packed, bm_line
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
local function packed(list)
  local parts = {}
  for i, item in ipairs(list) do parts[i] = #item .. ':' .. item end
  return table.concat(parts)
end
local changing = {'delay', 'priority', 'finishedOn', 'processedOn', 'failedReason', 'returnvalue', 'atm', 'ats', 'stc', 'defa'}
local function line_of(id) -- a field that is there begins with `=`
  local told = redis.pcall('HMGET', p .. id, unpack(changing))
  for i = 1, #changing do told[i] = told[i] and '=' .. told[i] or '' end
  return packed(told)
end
-- end
local function dedup_of(id) -- the deduplication key that it holds, and until when in ms
  local deid = redis.pcall('HGET', p .. id, 'deid')
  local key = p .. 'de:' .. tostring(deid or '')
  if type(deid) ~= 'string' or deid == '' or redis.pcall('GET', key) ~= id then return '' end
  local left_ms, clock = redis.call('PTTL', key), redis.call('TIME')
  return packed({deid, left_ms >= 0 and string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000) + left_ms) or ''})
end
local most = #ARGV[3] < 16 and string.find(ARGV[3], '^%d+$') and tonumber(ARGV[3])
if not most then return redis.error_reply('ERR most is a whole number; nothing was changed') end
local function all(...)
  local found = redis.pcall(...)
  return packed(found.err and {} or found)
end
local function rest(id) -- of a job, beside its hash
  local key, deid = p .. id, redis.pcall('HGET', p .. id, 'deid')
  return packed({
    all('LRANGE', key .. ':logs', 0, -1), all('HGETALL', key .. ':processed'), all('HGETALL', key .. ':failed'),
    all('ZRANGE', key .. ':unsuccessful', 0, -1, 'WITHSCORES'), all('HGETALL', p .. 'dn:' .. (type(deid) == 'string' and deid or '')),
    all('SMEMBERS', key .. ':dependencies'),
  })
end
local words, size = {}, 0
for at = 4, #ARGV do
  local id = ARGV[at]
  local place = place_of(id)
  if not place then
    words[#words + 1] = 'gone'
  elseif size >= most then
    words[#words + 1] = 'later'
  else
    local score = sets[place] and redis.call('ZSCORE', sets[place], id) or string.format('%.0f', lengths[place] - 1 - spots_of(place, id)[1])
    local row = {'here', place, score, whole and all('HGETALL', p .. id) or '', whole and rest(id) or '', line_of(id), dedup_of(id)}
    for column = 4, 7 do size = size + #row[column] end
    words[#words + 1] = row
  end
end
return words
