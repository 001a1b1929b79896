-- Purge a place, those that are next or oldest first, and in chunks: the jobs and all that is kept of them.
--
-- `kept` are those that stay: a worker holds the lock, it is the next job of a scheduler, its parent waits for it, or its children are
-- still to run. Forced, parents go, too; their children run on without them.
--
-- moves    delayed waiting_children prioritized wait paused completed failed ->
-- writes   events
-- derived  <prefix>:<queue>:<id>
--          <prefix>:<queue>:<id>:lock
--          <prefix>:<queue>:<id>:logs
--          <prefix>:<queue>:<id>:dependencies
--          <prefix>:<queue>:<id>:processed
--          <prefix>:<queue>:<id>:failed
--          <prefix>:<queue>:<id>:unsuccessful
--          <prefix>:<queue>:de:<dedup>
--          <prefix>:<queue>:dn:<dedup>
--          <prefix>:<parent_queue>:<parent>:dependencies
-- KEYS     delayed           zset    id by due (ms × 4096)
--          waiting_children  zset    id by since when (ms)
--          prioritized       zset    id by priority × 2^32, then arrival
--          wait              list    ids, the next one last
--          paused            list    ids while BullMQ 5 is paused, the next one last
--          completed         zset    id by when (ms)
--          failed            zset    id by when (ms)
--          events            stream  what happened
--          repeat            zset    scheduler by its next time (ms)
-- ARGV     p       str    before all keys of the queue: bull:mail:
--          place   str    which
--          limit   int    how many jobs in this call, 1 to 1000
--          force?  bool   even when their children are still to run
-- returns  moved  (moved int, left int, kept int)  purged
--          kept   (kept int)  all that is there is locked, of a scheduler, or of a flow
--          empty  nothing is there
local delayed, waiting_children, prioritized, wait, paused, completed, failed, events =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local schedulers = KEYS[9] .. '' -- `repeat` is a word of Lua
local p, place, limit, force = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4] == '1'
local sets = {delayed = delayed, waiting_children = waiting_children, prioritized = prioritized, completed = completed, failed = failed}
local lists = {wait = wait, paused = paused}
if #ARGV < 4 or p == '' or string.sub(wait, 1, #p) ~= p or not string.find(ARGV[3], '^%d+$') or limit < 1 or limit > 1000
  or not sets[place] and not lists[place] then
  return redis.error_reply('ERR the place is one from which jobs can go, limit is 1 to 1000; nothing was changed')
end
local lengths = {}
for _, key in pairs(sets) do redis.call('ZCARD', key) end
for name, key in pairs(lists) do lengths[name] = redis.call('LLEN', key) end
redis.call('ZCARD', schedulers)
redis.call('XLEN', events)
-- block: bm_job, bm_take_out, bm_scheduler, bm_free, bm_erase
local function fields(id, ...)
  local key = p .. id
  return redis.pcall('HEXISTS', key, 'name') == 1 and redis.call('HMGET', key, ...) or nil
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
local function erase(id)
  local key = p .. id
  for _, field in ipairs({'name', 'ats', 'atm', 'stc'}) do
    if redis.pcall('HEXISTS', key, field) == 1 then redis.call('DEL', key) end
  end
  redis.call('DEL', key .. ':logs', key .. ':dependencies', key .. ':processed', key .. ':failed', key .. ':unsuccessful')
end
-- end
local key, window = sets[place] or lists[place], limit + 3999
local found = sets[place] and redis.call('ZRANGE', key, 0, window) or redis.call('LRANGE', key, -window - 1, -1)
if #found == 0 then return {'empty'} end
local function stays(id, told)
  local children = redis.pcall('SCARD', p .. id .. ':dependencies')
  return redis.call('EXISTS', p .. id .. ':lock') == 1 or not force and type(children) == 'number' and children > 0 or told
    and (is_next(id, told[2]) or (told[1] or '') ~= '' and redis.pcall('SISMEMBER', told[1] .. ':dependencies', p .. id) == 1)
end
local jobs, spots, kept = {}, {}, 0
local first, last, step = 1, #found, 1
if lists[place] then first, last, step = #found, 1, -1 end -- the next one stands last
for i = first, last, step do
  if #jobs == limit then break end
  local id = found[i]
  local told = fields(id, 'parentKey', 'rjk', 'deid')
  if stays(id, told) then
    kept = kept + 1
  else
    jobs[#jobs + 1] = {id, told and told[3]}
    if lists[place] then spots[#spots + 1] = lengths[place] - #found + i - 1 end
  end
end
if #jobs == 0 then return {'kept', kept} end

redis.call('ZREM', failed, '') -- frees nothing: a drain may go on over maxmemory
if lists[place] then
  take_out(place, spots, 0)
else
  for _, job in ipairs(jobs) do redis.call('ZREM', key, job[1]) end
end
for _, job in ipairs(jobs) do
  free(job[1], job[2], false)
  erase(job[1])
end
local length = tonumber(redis.pcall('HGET', p .. 'meta', 'opts.maxLenEvents') or '') or 10000
redis.pcall('XADD', events, 'MAXLEN', '~', length, '*', 'event', 'cleaned', 'count', #jobs)
return {'moved', #jobs, redis.call(sets[place] and 'ZCARD' or 'LLEN', key) - kept, kept}
