-- Delete jobs that nobody runs, with their results.
--
-- A job that others wait for needs force: they stay deferred until they are promoted. So does one that stands in no place: a worker
-- may have taken it just now. An id is looked for near both ends of the queue.
--
-- moves    scheduled deferred ready_to_enqueue queued finished failed canceled ->
-- derived  <prefix>:job:<id>
--          <prefix>:job:<id>:dependents
--          <prefix>:job::<id>:dependencies
--          <prefix>:results:<id>
--          <prefix>:executions:<id>
--          <prefix>:execution:<id>:<execution>
--          <prefix>:group:<group>
-- KEYS     scheduled         zset  id by due (s)
--          deferred          zset  id by since when (s)
--          ready_to_enqueue  zset  id by since when (s)
--          queued            list  ids, the next one first
--          finished          zset  id by when it is forgotten (s)
--          failed            zset  id by when it is forgotten (s)
--          canceled          zset  id by since when (s)
-- ARGV     prefix   str   before all keys: rq
--          place?   str   only if it is still there; anywhere when empty
--          force?   bool  even when other jobs wait for it
--          each     (id bytes)
-- returns each  moved        deleted
--               reserved     a worker runs it: cancel it first
--               wrong_place  (place str)  it is somewhere else
--               dependents   (jobs int)  other jobs wait for it, and would stay deferred; force it
--               taken        it stands in no place: a worker has just taken it, or lost it; force it
--               later        the queue is too long to look for so many at once
--               limited      it has a rate limit, whose slots only RQ may give
--               gone         no such job
local scheduled, deferred, ready_to_enqueue, queued, finished, failed, canceled =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local place, force = ARGV[2], ARGV[3] == '1'
local scalars, columns = 3, 1
local registries = {scheduled = scheduled, deferred = deferred, ready_to_enqueue = ready_to_enqueue, finished = finished,
  failed = failed, canceled = canceled}
for _, key in pairs(registries) do redis.call('ZCARD', key) end
-- block: rq_batch, rq_fields, rq_listed, rq_stands, rq_parents, rq_erase, rq_take_out
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
local function leave_parents(id)
  local parents = redis.pcall('SMEMBERS', prefix .. ':job::' .. id .. ':dependencies')
  for _, parent in ipairs(parents.err and {} or parents) do
    redis.pcall('SREM', prefix .. ':job:' .. parent .. ':dependents', id)
  end
end
local function is_held(id, status) -- a canceled job may run on: its execution beats
  if status == 'started' then return true end
  local executions = redis.pcall('ZRANGE', prefix .. ':executions:' .. id, 0, -1)
  for _, execution in ipairs(executions.err and {} or executions) do
    if redis.call('EXISTS', prefix .. ':execution:' .. id .. ':' .. execution) == 1 then return true end
  end
  return false
end
local function waiting(id, leaving) -- how many jobs wait for it, but for those that leave with it
  local key, count = prefix .. ':job:' .. id .. ':dependents', 0
  local size = redis.pcall('SCARD', key)
  if type(size) ~= 'number' or size > 1000 then return type(size) == 'number' and size or 0 end
  for _, other in ipairs(size > 0 and redis.call('SMEMBERS', key) or {}) do
    local told = not leaving[other] and fields(other, 'status')
    if told and told[1] == 'deferred' then count = count + 1 end
  end
  return count
end
local function erase(id, group)
  local key = prefix .. ':job:' .. id
  leave_parents(id)
  if (group or '') ~= '' then redis.pcall('SREM', prefix .. ':group:' .. group, id) end
  if type(redis.pcall('HLEN', key)) == 'number' then redis.call('DEL', key) end -- not another program's key
  redis.call('DEL', key .. ':dependents', prefix .. ':job::' .. id .. ':dependencies')
  redis.call('DEL', prefix .. ':results:' .. id, prefix .. ':executions:' .. id)
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
if place ~= '' and not registries[place] and not ({queued = 1, started = 1, intermediate = 1})[place] then
  return redis.error_reply('ERR there is no place of that name; nothing was changed')
end
local words, jobs, spots, leaving = {}, {}, {}, {}
for at = 4, #ARGV do leaving[ARGV[at]] = true end
local seen = {}
for at = 4, #ARGV do
  local id = ARGV[at]
  local told = fields(id, 'status', 'rate_limit_key', 'group_id')
  local status = told and told[1] or ''
  local stands = not seen[id] and place_of(id, status)
  local others = stands and not force and waiting(id, leaving) or 0
  if seen[id] or not stands and not told then
    words[#words + 1] = 'gone'
  elseif is_held(id, status) then
    words[#words + 1] = 'reserved'
  elseif told and told[2] and told[2] ~= '' then
    words[#words + 1] = 'limited'
  elseif stands and place ~= '' and stands ~= place then
    words[#words + 1] = {'wrong_place', stands}
  elseif not stands and not force then
    words[#words + 1] = length > 2 * sight and 'later' or 'taken'
  elseif others > 0 then
    words[#words + 1] = {'dependents', others}
  else
    words[#words + 1], seen[id], jobs[#jobs + 1] = 'moved', true, {id, told and told[3]}
    for _, spot in ipairs(positions(id)) do spots[#spots + 1] = spot end
  end
end
if #jobs == 0 then return words end

for _, job in ipairs(jobs) do
  for _, key in pairs(registries) do redis.call('ZREM', key, job[1]) end
end
take_out(spots, 0)
for _, job in ipairs(jobs) do erase(job[1], job[2]) end
return words
