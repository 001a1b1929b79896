-- Revert jobs to what they were before a verb moved or changed them, where nothing changed them since.
--
-- What was deleted comes back by `restore`. A job in a list comes back to its old position, as far as that is there. A child that was
-- requeued stays: its parent waits for it again, or has gone on.
--
-- moves    delayed prioritized wait paused failed -> delayed | prioritized | wait | paused | completed | failed
-- writes   marker events
-- derived  <prefix>:<queue>:<id>
--          <prefix>:<queue>:de:<dedup>
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
--          each  (id bytes, left str, known? bytes, place str, score str, line? bytes, errors? bytes)  as records tells of it
-- returns each  moved    (place str)  reverted
--               changed  (place str)  it changed since
--               taken    another job has its deduplication key since
--               flow     it is a child, and its parent waits for it again
--               gone     no such job
local delayed, waiting_children, prioritized, wait, paused, active, completed, failed, meta, pc, marker, events =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local scalars, columns = 1, 7
-- block: bm_batch
local rows, p = (#ARGV - scalars) / columns, ARGV[1]
if rows < 1 or rows > 1000 or rows ~= math.floor(rows) or p == '' or string.sub(KEYS[1], 1, #p) ~= p then
  return redis.error_reply('ERR it takes what the keys begin with, and 1 to 1000 rows, each with all of its columns; nothing was changed')
end
-- end
local sets = {delayed = delayed, waiting_children = waiting_children, prioritized = prioritized, completed = completed, failed = failed}
local lists = {wait = wait, paused = paused, active = active}
-- block: bm_job, bm_places, bm_take_out, rq_packed, rq_unpacked, bm_line, bm_door, bm_tell, bm_wake, bm_alarm
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
local function take_out(name, spots, pushed) -- by position, since a search for each would cost more; `pushed` came before them
  local key, near, far = lists[name], 0, 0
  for _, at in ipairs(spots) do
    redis.call('LSET', key, at + pushed, '')
    if at * 2 < lengths[name] then near = near + 1 else far = far + 1 end
  end
  if near > 0 then redis.call('LREM', key, near, '') end
  if far > 0 then redis.call('LREM', key, -far, '') end
end
local function packed(list)
  local parts = {}
  for i, item in ipairs(list) do parts[i] = #item .. ':' .. item end
  return table.concat(parts)
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
local changing = {'delay', 'priority', 'finishedOn', 'processedOn', 'failedReason', 'returnvalue', 'atm', 'ats', 'stc', 'defa'}
local function line_of(id) -- a field that is there begins with `=`
  local told = redis.pcall('HMGET', p .. id, unpack(changing))
  for i = 1, #changing do told[i] = told[i] and '=' .. told[i] or '' end
  return packed(told)
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
local words, back, seen, spots = {}, {}, {}, {wait = {}, paused = {}}
for at = 2, #ARGV, columns do
  local id, left, known, place, score, line, errors = unpack(ARGV, at, at + 6)
  local fields_then, held = unpacked(line), unpacked(errors)
  local goals = {delayed = 1, prioritized = 1, wait = 1, paused = 1, completed = 1, failed = 1}
  local what = (not goals[left] or left == 'completed') and 'a verb leaves jobs in delayed, prioritized, wait, paused or failed'
    or not goals[place] and 'there is no place of that name'
    or not (tonumber(score) and string.find(score, '^%d[%d.e+]*$')) and 'the score is a number'
    or (not fields_then or #fields_then ~= #changing) and 'the line is not one'
    or (not held or #held ~= 2 and #held ~= 0 or #held == 2 and not string.find(held[2], '^%d*$')) and 'the deduplication key is not one'
  if what then return redis.error_reply('ERR row ' .. (at + 5) / columns .. ': ' .. what .. '; nothing was changed') end
  local told = fields(id, 'parentKey')
  local now = place_of(id)
  local had = holder(errors)
  if not now then
    words[#words + 1] = 'gone'
  elseif now ~= left or seen[id] or not told or line_of(id) ~= known then
    words[#words + 1] = {'changed', now}
  elseif (told[1] or '') ~= '' and (place == 'failed' or place == 'completed') then
    words[#words + 1] = 'flow'
  elseif had and had ~= id then
    words[#words + 1] = 'taken'
  else
    words[#words + 1], seen[id] = {'moved', lists[place] and own.place or place}, true
    back[#back + 1] = {id = id, left = left, place = place, score = score, fields = fields_then, errors = errors}
    for _, spot in ipairs(lists[left] and spots_of(left, id) or {}) do spots[left][#spots[left] + 1] = spot end
  end
end
if #back == 0 then return words end
table.sort(back, function(a, b) return tonumber(a.score) < tonumber(b.score) end) -- in a list each position counts on those before

redis.call('ZREM', failed, '') -- frees nothing: a drain may go on over maxmemory
local aside, pushed = 0, {wait = 0, paused = 0}
for _, job in ipairs(back) do
  for i, name in ipairs(changing) do
    local value, key = job.fields[i], p .. job.id
    if value == '' then redis.call('HDEL', key, name) else redis.call('HSET', key, name, string.sub(value, 2)) end
  end
  hold(job.id, job.errors)
  if lists[job.left] then
    if lists[job.place] then -- it only changes its position, and stands at the head until it finds it
      redis.call('LPUSH', own.list, job.id)
      aside, pushed[own.place] = aside + 1, pushed[own.place] + 1
    else
      put_back(job.id, job.place, job.score, job.left, 0)
    end
  end
end
for place, all in pairs(spots) do take_out(place, all, pushed[place]) end
for _, job in ipairs(back) do
  if lists[job.left] and lists[job.place] then
    put_back(job.id, job.place, job.score, job.left, aside)
    redis.call('LREM', own.list, 1, job.id)
    aside = aside - 1
  elseif not lists[job.left] then
    put_back(job.id, job.place, job.score, job.left, aside)
    if job.left ~= job.place then redis.call('ZREM', sets[job.left], job.id) end
  end
end
return words
