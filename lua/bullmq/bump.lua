-- Bump waiting jobs: the first of them is the next one to run, the others follow in the order given.
--
-- Jobs with a priority come after all others: give one priority 0, and then bump it.
--
-- moves    wait paused -> wait | paused
-- derived  <prefix>:<queue>:<id>
-- KEYS     delayed           zset  id by due (ms × 4096)
--          waiting_children  zset  id by since when (ms)
--          prioritized       zset  id by priority × 2^32, then arrival
--          wait              list  ids, the next one last
--          paused            list  ids while BullMQ 5 is paused, the next one last
--          active            list  ids that run, the oldest run last
--          completed         zset  id by when (ms)
--          failed            zset  id by when (ms)
-- ARGV     p     str    before all keys of the queue: bull:mail:
--          each  (id bytes)
-- returns each  moved        bumped
--               wrong_place  (place str)  it does not wait, or has a priority
--               ghost        its hash is gone: it can only be deleted
--               later        the queue is too long to look for so many at once
--               gone         no such job
local delayed, waiting_children, prioritized, wait, paused, active, completed, failed =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local scalars, columns = 1, 1
-- block: bm_batch
local rows, p = (#ARGV - scalars) / columns, ARGV[1]
if rows < 1 or rows > 1000 or rows ~= math.floor(rows) or p == '' or string.sub(KEYS[1], 1, #p) ~= p then
  return redis.error_reply('ERR it takes what the keys begin with, and 1 to 1000 rows, each with all of its columns; nothing was changed')
end
-- end
local sets = {delayed = delayed, waiting_children = waiting_children, prioritized = prioritized, completed = completed, failed = failed}
local lists = {wait = wait, paused = paused, active = active}
-- block: bm_job, bm_places, bm_hidden, bm_take_out
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
-- end
local words, jobs, spots, seen = {}, {wait = {}, paused = {}}, {wait = {}, paused = {}}, {}
for at = 2, #ARGV do
  local id = ARGV[at]
  local place = place_of(id)
  if not place or seen[id] then
    words[#words + 1] = not place and is_hidden() and 'later' or 'gone'
  elseif not jobs[place] then
    words[#words + 1] = {'wrong_place', place}
  elseif not fields(id, 'name') then
    words[#words + 1] = 'ghost'
  else
    words[#words + 1], seen[id] = 'moved', true
    jobs[place][#jobs[place] + 1] = id
    for _, spot in ipairs(spots_of(place, id)) do spots[place][#spots[place] + 1] = spot end
  end
end
if not next(seen) then return words end

redis.call('ZREM', failed, '') -- frees nothing: this goes on over maxmemory
for place, ids in pairs(jobs) do
  for i = #ids, 1, -1 do redis.call('RPUSH', lists[place], ids[i]) end
  take_out(place, spots[place], 0)
end
return words
