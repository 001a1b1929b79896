-- Cancel started jobs: ask their workers to stop them. Such a job fails with the status stopped, and is not retried.
--
-- `heard` is the number of subscribers of the worker's channel. Redis does not store the message, so a worker that is not subscribed
-- never receives it.
--
-- writes   commands
-- derived  <prefix>:job:<id>
--          <prefix>:execution:<id>:<execution>
-- KEYS     started commands
-- ARGV     prefix    str   prefix of all keys: rq
--          each      (id bytes, member? bytes)
-- returns each  asked        (heard int)  asked to cancel: its worker stops it at once
--               unheard      no worker is subscribed; reap the job if its worker died
--               wrong_place  no worker runs it; kill or delete it
--               gone         no such job
-- include: keys, args, key_types(started), read_fields
if #ARGV < 3 or #ARGV > 2001 or #ARGV % 2 == 0 or prefix == '' then
  return redis.error_reply('ERR it takes the prefix, and 1 to 1000 rows of id and member; nothing was changed')
end
local replies, seen = {}, {}
for at = 2, #ARGV, 2 do
  local id, member = ARGV[at], ARGV[at + 1]
  local values = read_fields(id, 'status', 'worker_name')
  local worker = redis.pcall('HGET', prefix .. ':execution:' .. member, 'worker_name') -- RQ 2 does not write this field
  if type(worker) ~= 'string' or worker == '' then worker = values and values[2] or '' end
  if not values then
    replies[#replies + 1] = 'gone'
  elseif values[1] ~= 'started' or (member ~= '' and not redis.call('ZSCORE', started, member)) then
    replies[#replies + 1] = 'wrong_place'
  else
    local heard = seen[id] or redis.call('PUBLISH', commands .. worker, cjson.encode({command = 'stop-job', job_id = id}))
    replies[#replies + 1], seen[id] = heard > 0 and {'asked', heard} or 'unheard', heard
  end
end
return replies
