-- Cancel started jobs: their workers are told to stop them. They fail then, with the status stopped, and are not tried again.
--
-- `heard` is how many listen on the worker's channel. Nothing is kept: who does not listen never learns it.
--
-- writes   commands
-- derived  <prefix>:job:<id>
--          <prefix>:execution:<id>:<execution>
-- KEYS     started   zset     id:execution by deadline (s)
--          commands  channel  before the channel of each worker
-- ARGV     prefix    str   before all keys: rq
--          each      (id bytes, member? bytes)
-- returns each  asked        (heard int)  asked to cancel: its worker stops it at once
--               unheard      nobody listens: its worker is gone, and reap takes the job back
--               wrong_place  nobody runs it: kill or delete it
--               gone         no such job
local started, commands, prefix = KEYS[1], KEYS[2], ARGV[1]
if #ARGV < 3 or #ARGV > 2001 or #ARGV % 2 == 0 or prefix == '' then
  return redis.error_reply('ERR it takes the prefix, and 1 to 1000 rows of id and member; nothing was changed')
end
redis.call('ZCARD', started)
-- block: rq_fields
local function fields(id, ...)
  local key = prefix .. ':job:' .. id
  return redis.pcall('HEXISTS', key, 'data') == 1 and redis.call('HMGET', key, ...) or nil
end
-- end
local words, seen = {}, {}
for at = 2, #ARGV, 2 do
  local id, member = ARGV[at], ARGV[at + 1]
  local told = fields(id, 'status', 'worker_name')
  local worker = redis.pcall('HGET', prefix .. ':execution:' .. member, 'worker_name') -- RQ 2 does not write it there
  if type(worker) ~= 'string' or worker == '' then worker = told and told[2] or '' end
  if not told then
    words[#words + 1] = 'gone'
  elseif told[1] ~= 'started' or (member ~= '' and not redis.call('ZSCORE', started, member)) then
    words[#words + 1] = 'wrong_place'
  else
    local heard = seen[id] or redis.call('PUBLISH', commands .. worker, cjson.encode({command = 'stop-job', job_id = id}))
    words[#words + 1], seen[id] = heard > 0 and {'asked', heard} or 'unheard', heard
  end
end
return words
