-- Purge a place in chunks, from its head: delete the jobs with their results.
--
-- Jobs that a worker runs, that have a rate limit, or that other jobs depend on stay; `kept` counts them. With `force`, jobs that others
-- depend on are deleted, too.
--
-- moves    scheduled deferred queued finished failed canceled ->
-- derived  <prefix>:job:<id>
--          <prefix>:job:<id>:dependents
--          <prefix>:job::<id>:dependencies
--          <prefix>:results:<id>
--          <prefix>:executions:<id>
--          <prefix>:execution:<id>:<execution>
--          <prefix>:group:<group>
-- KEYS     scheduled deferred queued finished failed canceled
-- ARGV     prefix     str   prefix of all keys: rq
--          place      str   the place to purge
--          limit      int   jobs per call, 1 to 1000
--          force?     bool  even if other jobs depend on them
-- returns  moved  (moved int, left int, kept int)  purged
--          kept   (kept int)  a worker, a rate limit or a dependent job keeps all jobs
--          empty  the place is empty
-- include: keys, args
local places = {scheduled = scheduled, deferred = deferred, queued = queued, finished = finished, failed = failed,
  canceled = canceled}
if #ARGV < 4 or prefix == '' or not string.find(ARGV[3], '^%d+$') or limit < 1 or limit > 1000 or not places[place] then
  return redis.error_reply('ERR the place is scheduled, deferred, queued, finished, failed or canceled, limit is 1 to 1000; nothing was changed')
end
for name, key in pairs(places) do if name ~= 'queued' then redis.call('ZCARD', key) end end
local length = redis.call('LLEN', queued)
-- include: read_fields, is_held, delete_data, remove_at
local key = places[place]
local found = redis.call(place == 'queued' and 'LRANGE' or 'ZRANGE', key, 0, limit + 3999)
if #found == 0 then return {'empty'} end
local jobs, spots, kept, leaving = {}, {}, 0, {}
for i = 1, math.min(#found, limit) do leaving[found[i]] = true end
for i, id in ipairs(found) do
  if #jobs == limit then break end
  local values = read_fields(id, 'status', 'rate_limit_key', 'group_id')
  if is_held(id, values and values[1]) or values and (values[2] or '') ~= '' or not force and count_dependents(id, leaving) > 0 then
    kept = kept + 1
  else
    jobs[#jobs + 1], spots[#spots + 1] = {id, values and values[3]}, i - 1
  end
end
if #jobs == 0 then return {'kept', kept} end

redis.call('ZREM', failed, '') -- frees nothing, but lets the script finish over maxmemory
for _, job in ipairs(jobs) do
  if place ~= 'queued' then redis.call('ZREM', key, job[1]) end
end
if place == 'queued' then remove_at(queued, length, spots, 0) end
for _, job in ipairs(jobs) do delete_data(job[1], job[2]) end
return {'moved', #jobs, redis.call(place == 'queued' and 'LLEN' or 'ZCARD', key) - kept, kept}
