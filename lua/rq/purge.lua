-- Purge a place, from its head and in chunks: the jobs and their results.
--
-- What a worker runs, what has a rate limit, and what others wait for stays: `kept` are those that were met. Forced, those that others
-- wait for go, too.
--
-- moves    scheduled deferred queued finished failed canceled ->
-- derived  <prefix>:job:<id>
--          <prefix>:job:<id>:dependents
--          <prefix>:job::<id>:dependencies
--          <prefix>:results:<id>
--          <prefix>:executions:<id>
--          <prefix>:execution:<id>:<execution>
--          <prefix>:group:<group>
-- KEYS     scheduled  zset  id by due (s)
--          deferred   zset  id by since when (s)
--          queued     list  ids, the next one first
--          finished   zset  id by when it is forgotten (s)
--          failed     zset  id by when it is forgotten (s)
--          canceled   zset  id by since when (s)
-- ARGV     prefix     str   before all keys: rq
--          place      str   which
--          limit      int   how many jobs in this call, 1 to 1000
--          force?     bool  even when other jobs wait for them
-- returns  moved  (moved int, left int, kept int)  purged
--          kept   (kept int)  all that is there is held, limited, or waited for
--          empty  nothing is there
local scheduled, deferred, queued, finished, failed, canceled = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local prefix, place, limit, force = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4] == '1'
local places = {scheduled = scheduled, deferred = deferred, queued = queued, finished = finished, failed = failed,
  canceled = canceled}
if #ARGV < 4 or prefix == '' or not string.find(ARGV[3], '^%d+$') or limit < 1 or limit > 1000 or not places[place] then
  return redis.error_reply('ERR the place is scheduled, deferred, queued, finished, failed or canceled, limit is 1 to 1000; nothing was changed')
end
for name, key in pairs(places) do if name ~= 'queued' then redis.call('ZCARD', key) end end
local length = redis.call('LLEN', queued)
-- block: rq_fields, rq_parents, rq_erase, rq_take_out
local function fields(id, ...)
  local key = prefix .. ':job:' .. id
  return redis.pcall('HEXISTS', key, 'data') == 1 and redis.call('HMGET', key, ...) or nil
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
local key = places[place]
local found = redis.call(place == 'queued' and 'LRANGE' or 'ZRANGE', key, 0, limit + 3999)
if #found == 0 then return {'empty'} end
local jobs, spots, kept, leaving = {}, {}, 0, {}
for i = 1, math.min(#found, limit) do leaving[found[i]] = true end
for i, id in ipairs(found) do
  if #jobs == limit then break end
  local told = fields(id, 'status', 'rate_limit_key', 'group_id')
  if is_held(id, told and told[1]) or told and (told[2] or '') ~= '' or not force and waiting(id, leaving) > 0 then
    kept = kept + 1
  else
    jobs[#jobs + 1], spots[#spots + 1] = {id, told and told[3]}, i - 1
  end
end
if #jobs == 0 then return {'kept', kept} end

redis.call('ZREM', failed, '') -- frees nothing: a drain may go on over maxmemory
for _, job in ipairs(jobs) do
  if place ~= 'queued' then redis.call('ZREM', key, job[1]) end
end
if place == 'queued' then take_out(spots, 0) end
for _, job in ipairs(jobs) do erase(job[1], job[2]) end
return {'moved', #jobs, redis.call(place == 'queued' and 'LLEN' or 'ZCARD', key) - kept, kept}
