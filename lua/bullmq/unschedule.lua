-- Unschedule a scheduler: it makes no more jobs, and its next one is deleted.
--
-- A job of it that waits already or runs is the last one. Its application makes the scheduler anew when it starts, if it still says so.
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
-- KEYS     delayed  zset    id by due (ms × 4096)
--          events   stream  what happened
--          repeat   zset    scheduler by its next time (ms)
-- ARGV     p          str    before all keys of the queue: bull:mail:
--          scheduler  bytes  its id
-- returns  moved  unscheduled
--          gone   there is no such scheduler
local delayed, events = KEYS[1], KEYS[2]
local schedulers = KEYS[3] .. '' -- `repeat` is a word of Lua
local p, scheduler = ARGV[1], ARGV[2]
if #ARGV < 2 or p == '' or string.sub(delayed, 1, #p) ~= p or scheduler == '' then
  return redis.error_reply('ERR it takes what the keys begin with, and the id of a scheduler; nothing was changed')
end
redis.call('ZCARD', delayed)
redis.call('XLEN', events)
-- block: bm_job, bm_free, bm_erase
local function fields(id, ...)
  local key = p .. id
  return redis.pcall('HEXISTS', key, 'name') == 1 and redis.call('HMGET', key, ...) or nil
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
local at = redis.call('ZSCORE', schedulers, scheduler)
if not at then return {'gone'} end
local id = 'repeat:' .. scheduler .. ':' .. string.format('%.0f', tonumber(at))
local told = fields(id, 'deid')

redis.call('ZREM', schedulers, scheduler)
redis.call('DEL', schedulers .. ':' .. scheduler)
if redis.call('ZREM', delayed, id) == 1 then
  free(id, told and told[1], false)
  erase(id)
  local length = tonumber(redis.pcall('HGET', p .. 'meta', 'opts.maxLenEvents') or '') or 10000
  redis.pcall('XADD', events, 'MAXLEN', '~', length, '*', 'event', 'removed', 'jobId', id, 'prev', 'delayed')
end
return {'moved'}
