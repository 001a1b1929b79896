-- Purge a place in chunks, the next or oldest jobs first: delete the jobs with all their data.
--
-- `kept` counts the jobs that stay: a worker holds the lock, the job is the next one of a scheduler, its parent waits for it, or its
-- children have not run. With `force` such parents are deleted, too; their children still run.
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
-- KEYS     delayed waiting_children prioritized wait paused completed failed events repeat
-- ARGV     p       str    prefix of all keys of the queue: bull:mail:
--          place   str    the place to purge
--          limit   int    jobs per call, 1 to 1000
--          force?  bool   even if their children have not run
-- returns  moved  (moved int, left int, kept int)  purged
--          kept   (kept int)  all jobs are locked, or belong to a scheduler or a flow
--          empty  the place is empty
-- include: keys, args
local sets = {delayed = delayed, waiting_children = waiting_children, prioritized = prioritized, completed = completed, failed = failed}
local lists = {wait = wait, paused = paused}
if #ARGV < 4 or p == '' or string.sub(wait, 1, #p) ~= p or not string.find(ARGV[3], '^%d+$') or limit < 1 or limit > 1000
  or not sets[place] and not lists[place] then
  return redis.error_reply('ERR the place is one from which jobs can go, limit is 1 to 1000; nothing was changed')
end
local lengths = {}
for _, key in pairs(sets) do redis.call('ZCARD', key) end
for name, key in pairs(lists) do lengths[name] = redis.call('LLEN', key) end
-- include: key_types(repeat events), read_fields, remove_at, scheduler, free_dedup, delete_data
local key, window = sets[place] or lists[place], limit + 3999
local found = sets[place] and redis.call('ZRANGE', key, 0, window) or redis.call('LRANGE', key, -window - 1, -1)
if #found == 0 then return {'empty'} end
local function must_stay(id, values)
  local children = redis.pcall('SCARD', p .. id .. ':dependencies')
  return redis.call('EXISTS', p .. id .. ':lock') == 1 or not force and type(children) == 'number' and children > 0 or values
    and (is_next(id, values[2]) or (values[1] or '') ~= '' and redis.pcall('SISMEMBER', values[1] .. ':dependencies', p .. id) == 1)
end
local jobs, spots, kept = {}, {}, 0
local first, last, step = 1, #found, 1
if lists[place] then first, last, step = #found, 1, -1 end -- the next job is the last one
for i = first, last, step do
  if #jobs == limit then break end
  local id = found[i]
  local values = read_fields(id, 'parentKey', 'rjk', 'deid')
  if must_stay(id, values) then
    kept = kept + 1
  else
    jobs[#jobs + 1] = {id, values and values[3]}
    if lists[place] then spots[#spots + 1] = lengths[place] - #found + i - 1 end
  end
end
if #jobs == 0 then return {'kept', kept} end

redis.call('ZREM', failed, '') -- frees nothing, but lets the script finish over maxmemory
if lists[place] then
  remove_at(lists[place], lengths[place], spots, 0)
else
  for _, job in ipairs(jobs) do redis.call('ZREM', key, job[1]) end
end
for _, job in ipairs(jobs) do
  free_dedup(job[1], job[2], false)
  delete_data(job[1])
end
local length = tonumber(redis.pcall('HGET', p .. 'meta', 'opts.maxLenEvents') or '') or 10000
redis.pcall('XADD', events, 'MAXLEN', '~', length, '*', 'event', 'cleaned', 'count', #jobs)
return {'moved', #jobs, redis.call(sets[place] and 'ZCARD' or 'LLEN', key) - kept, kept}
