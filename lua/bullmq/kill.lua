-- Kill jobs that wait or are delayed: they fail with a reason, and run no more until they are requeued.
--
-- A child is not killed, since its parent would wait for it for ever, and neither is the next job of a scheduler, which would stop:
-- delete the one, and take the other off by `unschedule`. A deduplication key without an end is freed, as by any failure.
--
-- moves    delayed wait paused prioritized -> failed
-- writes   events
-- derived  <prefix>:<queue>:<id>
--          <prefix>:<parent_queue>:<parent>:dependencies
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
--          events            stream  what happened
--          repeat            zset    scheduler by its next time (ms)
-- ARGV     p        str    before all keys of the queue: bull:mail:
--          now_ms?  int    a test's clock; the server's when empty
--          reason?  bytes  why
--          each     (id bytes)
-- returns each  moved        killed
--               child        it is a child, and its parent would wait for it for ever: delete it instead
--               scheduler    it is the next job of a scheduler, which would stop: unschedule that instead
--               wrong_place  (place str)  it neither waits nor is delayed
--               ghost        its hash is gone: it can only be deleted
--               later        the queue is too long to look for so many at once
--               gone         no such job
local delayed, waiting_children, prioritized, wait, paused, active, completed, failed, events =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local schedulers = KEYS[10] .. '' -- `repeat` is a word of Lua
local reason = ARGV[3] == '' and 'killed by an operator' or ARGV[3]
local scalars, columns = 3, 1
-- block: bm_batch, bm_clock
local rows, p = (#ARGV - scalars) / columns, ARGV[1]
if rows < 1 or rows > 1000 or rows ~= math.floor(rows) or p == '' or string.sub(KEYS[1], 1, #p) ~= p then
  return redis.error_reply('ERR it takes what the keys begin with, and 1 to 1000 rows, each with all of its columns; nothing was changed')
end
if #ARGV[2] > 13 or string.find(ARGV[2], '%D') then
  return redis.error_reply('ERR now_ms is a whole number; nothing was changed')
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[2]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
-- end
local sets = {delayed = delayed, waiting_children = waiting_children, prioritized = prioritized, completed = completed, failed = failed}
local lists = {wait = wait, paused = paused, active = active}
redis.call('XLEN', events)
redis.call('ZCARD', schedulers)
-- block: bm_job, bm_places, bm_hidden, bm_take_out, bm_scheduler, bm_free
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
local function take_out(name, spots, pushed) -- by position, since a search for each would cost more; `pushed` came before them
  local key, near, far = lists[name], 0, 0
  for _, at in ipairs(spots) do
    redis.call('LSET', key, at + pushed, '')
    if at * 2 < lengths[name] then near = near + 1 else far = far + 1 end
  end
  if near > 0 then redis.call('LREM', key, near, '') end
  if far > 0 then redis.call('LREM', key, -far, '') end
end
local function is_next(id, scheduler) -- its worker makes the one after it: without it the scheduler stands still
  local at = (scheduler or '') ~= '' and redis.call('ZSCORE', schedulers, scheduler)
  return at and id == 'repeat:' .. scheduler .. ':' .. string.format('%.0f', tonumber(at)) or false
end
local function free(id, deid, is_ended) -- one that is kept for a time stays that long when the job has ended
  local key = p .. 'de:' .. (deid or '')
  if (deid or '') == '' or redis.pcall('GET', key) ~= id or is_ended and redis.call('PTTL', key) > 0 then return end
  redis.call('DEL', key)
  if not is_ended then redis.call('DEL', p .. 'dn:' .. deid) end
end
-- end
local waits = {delayed = true, wait = true, paused = true, prioritized = true}
local words, jobs, spots, seen = {}, {}, {wait = {}, paused = {}}, {}
for at = 4, #ARGV do
  local id = ARGV[at]
  local place = seen[id] or place_of(id)
  local told = fields(id, 'parentKey', 'rjk', 'deid')
  if not place then
    words[#words + 1] = is_hidden() and 'later' or 'gone'
  elseif not waits[place] then
    words[#words + 1] = {'wrong_place', place}
  elseif not told then
    words[#words + 1] = 'ghost'
  elseif (told[1] or '') ~= '' and redis.pcall('SISMEMBER', told[1] .. ':dependencies', p .. id) == 1 then
    words[#words + 1] = 'child'
  elseif is_next(id, told[2]) then
    words[#words + 1] = 'scheduler'
  else
    words[#words + 1], seen[id], jobs[#jobs + 1] = 'moved', 'failed', {id, place, told[3]}
    for _, spot in ipairs(lists[place] and spots_of(place, id) or {}) do spots[place][#spots[place] + 1] = spot end
  end
end
if #jobs == 0 then return words end

redis.call('ZREM', failed, '') -- frees nothing: a drain may go on over maxmemory
local length = tonumber(redis.pcall('HGET', p .. 'meta', 'opts.maxLenEvents') or '') or 10000
for _, job in ipairs(jobs) do
  local id, place = job[1], job[2]
  redis.call('HSET', p .. id, 'failedReason', reason, 'finishedOn', string.format('%.0f', now_ms))
  redis.call('ZADD', failed, string.format('%.0f', now_ms), id)
  if sets[place] then redis.call('ZREM', sets[place], id) end
end
for place, all in pairs(spots) do take_out(place, all, 0) end
for _, job in ipairs(jobs) do
  free(job[1], job[3], true)
  redis.pcall('XADD', events, 'MAXLEN', '~', length, '*', 'event', 'failed', 'jobId', job[1], 'failedReason', reason, 'prev', job[2])
end
return words
