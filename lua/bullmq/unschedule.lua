-- Unschedule a scheduler: it creates no more jobs, and its next job is deleted.
--
-- A job of it that is already waiting or running is the last one. The application creates the scheduler again when it starts, unless its
-- code has changed.
--
-- writes   delayed events repeat
-- derived  <prefix>:<queue>:repeat:<scheduler>
--          <prefix>:<queue>:<id>
--          <prefix>:<queue>:<id>:logs
--          <prefix>:<queue>:<id>:dependencies
--          <prefix>:<queue>:<id>:processed
--          <prefix>:<queue>:<id>:failed
--          <prefix>:<queue>:<id>:unsuccessful
--          <prefix>:<queue>:de:<dedup>
--          <prefix>:<queue>:dn:<dedup>
-- KEYS     delayed events repeat
-- ARGV     p          str    prefix of all keys of the queue: bull:mail:
--          scheduler  bytes  its id
-- returns  moved  unscheduled
--          gone   no such scheduler
-- include: keys, args
if #ARGV < 2 or p == '' or string.sub(delayed, 1, #p) ~= p or scheduler == '' then
  return redis.error_reply('ERR it takes what the keys begin with, and the id of a scheduler; nothing was changed')
end
-- include: key_types(delayed events), read_fields, free_dedup, delete_data
local at = redis.call('ZSCORE', repeat_, scheduler)
if not at then return {'gone'} end
local id = 'repeat:' .. scheduler .. ':' .. string.format('%.0f', tonumber(at))
local values = read_fields(id, 'deid')

redis.call('ZREM', repeat_, scheduler)
redis.call('DEL', repeat_ .. ':' .. scheduler)
if redis.call('ZREM', delayed, id) == 1 then
  free_dedup(id, values and values[1], false)
  delete_data(id)
  local length = tonumber(redis.pcall('HGET', p .. 'meta', 'opts.maxLenEvents') or '') or 10000
  redis.pcall('XADD', events, 'MAXLEN', '~', length, '*', 'event', 'removed', 'jobId', id, 'prev', 'delayed')
end
return {'moved'}
