-- Beat for a worker: record its heartbeat, and reply with its order: run, quiet or stop.
--
-- Workers without a heartbeat for ten times their `ttl_ms` are deleted, up to five per call.
--
-- writes   workers
-- KEYS     workers meta
-- ARGV     now_ms?     int   a test's clock; the server's when empty
--          worker      str   its name
--          ttl_ms      int   the worker is late after this time without a heartbeat
--          started_ms? int   when it started; now for a new worker when empty
--          pid?        str   its process id
--          host?       str   its machine
--          job?        bytes the job that it runs; one of them if there are several
--          leave?      bool  the worker ends: delete it
-- returns  run    continue
--          quiet  finish the leased jobs, and take no more
--          stop   finish or release the leased jobs, and end
--          left   deleted
-- include: keys, args(worker ttl_ms started_ms pid host job)
local version = redis.call('HGET', meta, 'version')
-- include: key_types(workers), opening
if #ARGV < 8 or #worker < 1 or #worker > 200 or string.find(worker, '%c') then
  return redis.error_reply('ERR a worker name has 1 to 200 bytes and no control characters; nothing was changed')
end
if string.find(ARGV[1] .. ARGV[3] .. ARGV[4], '%D') or math.max(#ARGV[1], #ARGV[3], #ARGV[4]) > 13 or not ttl_ms or ttl_ms < 1 then
  return redis.error_reply('ERR ttl_ms, started_ms and now_ms are whole numbers, ttl_ms at least 1; nothing was changed')
end
if string.find(pid .. host, '[%c ]') then
  return redis.error_reply('ERR pid and host have neither spaces nor control characters; nothing was changed')
end
if ARGV[8] == '1' then
  redis.call('HDEL', workers, worker)
  return {'left'}
end
local order, since = string.match(redis.call('HGET', workers, worker) or '', '^%d+ %d+ (%S+) (%d+) ')
if order ~= 'quiet' and order ~= 'stop' then order = 'run' end
local silent = {}
local sample = redis.call('HRANDFIELD', workers, 5, 'WITHVALUES') or {}
for i = 1, #sample, 2 do
  local beat, ttl = string.match(sample[i + 1], '^(%d+) (%d+) ')
  if not beat or now_ms - tonumber(beat) > 10 * tonumber(ttl) then silent[#silent + 1] = sample[i] end
end

-- The empty name removes nothing, but lets the script continue over maxmemory.
redis.call('HDEL', workers, '', unpack(silent))
local line = {now_ms, ttl_ms, order, started_ms or since or now_ms, pid == '' and '-' or pid, host == '' and '-' or host, job}
redis.call('HSET', workers, worker, table.concat(line, ' '))
return {order}
