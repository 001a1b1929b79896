-- List the workers of a queue: those with a hash and its fields, and those that died.
--
-- `left_ms` is the time until RQ considers a worker dead. It is -2 for a dead worker, of which only the key is known. `job` is the job that
-- the worker runs: in RQ 3 the first of its executions, in RQ 2 its `current_job`. The reply has `limit` workers from `offset` on, in
-- the order of the set, which has `total` of them.
--
-- derived  <prefix>:worker:<worker>
--          <prefix>:worker:<worker>:executions
-- KEYS     workers
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          prefix   str  prefix of all keys: rq
--          offset?  int  number of workers to skip; empty: 0
--          limit?   int  workers per reply, 1 to 500; empty: 150
-- returns  listed  (now_ms int, total int)  rows (worker bytes, left_ms int, last_heartbeat str, birth str, state str, queues str, pid str, hostname str,
--                  successful_job_count str, failed_job_count str, total_working_time str, current_job bytes,
--                  shutdown_requested_date str, version str, python_version str, death str, executions int, execution bytes)
-- include: keys
local offset, limit = tonumber(ARGV[3] ~= '' and ARGV[3] or 0), tonumber(ARGV[4] ~= '' and ARGV[4] or 150)
if #ARGV < 4 or #ARGV[1] > 15 or #ARGV[3] > 15 or string.find(ARGV[1] .. ARGV[3] .. ARGV[4], '%D') or not offset or not limit or limit < 1 or limit > 500 then
  return redis.error_reply('ERR now_ms and offset are whole numbers, limit is 1 to 500; nothing was changed')
end
-- include: clock_prefix
local rows = {}
local own = prefix .. ':worker:'
local found = redis.call('SMEMBERS', workers)
for at = offset + 1, math.min(#found, offset + limit) do
  local key = found[at]
  local values = redis.pcall('HMGET', key, 'last_heartbeat', 'birth', 'state', 'queues', 'pid', 'hostname',
    'successful_job_count', 'failed_job_count', 'total_working_time', 'current_job', 'shutdown_requested_date', 'version',
    'python_version', 'death')
  local name = string.sub(key, 1, #own) == own and string.sub(key, #own + 1) or key
  local left_ms, running = redis.call('PTTL', key), {}
  if values[3] == 'busy' then running = redis.pcall('SSCAN', key .. ':executions', 0, 'COUNT', 10)[2] or {} end
  local row = {name, left_ms}
  for i = 1, 14 do row[i + 2] = not values.err and values[i] and string.sub(values[i], 1, 4096) or '' end
  row[17], row[18] = #running, running[1] or ''
  rows[#rows + 1] = row
end
return {'listed', now_ms, #found, rows}
