-- Find one job by its bytes or by its id.
--
-- The bytes are given by `head`, `size` and `tail`, as in a page; `size` 0 means that they are unknown. Without a
-- `place`, the running jobs are searched for the bytes or the id, and the sorted sets and the first and last 50 000
-- jobs of the queue for the complete bytes. With a `place`, 1000 of its jobs are searched for the bytes or the id, from
-- the rank `offset` on; a negative offset counts from the end. `executions`, `cursor`, `runtime` and `cancelled` are
-- the progress of an iterable job, and empty for other jobs.
--
-- derived  <prefix><identity>
--          <prefix><identity>:work
--          <prefix><identity>:workers
--          <prefix>it-<id>
-- KEYS     schedule retry queue dead processes
-- ARGV     now_ms?     int    a test's clock; the server's when empty
--          prefix      str    the prefix of all keys: the namespace and a colon, or nothing
--          id          bytes  its `jid`
--          head        bytes  its bytes, or the first of them
--          size        int    their number; 0: unknown
--          tail        bytes  its last bytes
--          body_bytes  int    return a job of up to this size, or up to 4096, whole; -1: always
--          place?      str    schedule, retry, queue or dead
--          offset?     int    a rank in that place
-- returns  found  (now_ms int, place str, head bytes, size int, tail bytes, score str, token bytes, worker str, beat_ms str,
--                 executions str, cursor bytes, runtime str, cancelled str)
--          gone   no such job
-- include: keys
for _, at in ipairs({5, 7, 9}) do
  if #ARGV < 9 or #ARGV[at] > 15 or not string.find(ARGV[at], at < 9 and '^%-?%d+$' or '^%-?%d*$') then
    return redis.error_reply('ERR it takes 9 arguments, whole numbers where the header says int; nothing was changed')
  end
end
-- include: args(id head size tail body_bytes)
local place, offset = ARGV[8], tonumber(ARGV[9]) or 0
-- include: clock, prefix, instant, queue_of, processes, works, type_of
local name = string.sub(queue, #prefix + 7)
-- include: job_row, running
local function reply(where, text, ...)
  local values = {'found', now_ms, where, unpack(job_row(text, ...))}
  local jid = id ~= '' and id or string.match(text, '"jid": ?"([^"\\]*)"') or ''
  local state = redis.pcall('HMGET', prefix .. 'it-' .. jid, 'ex', 'c', 'rt', 'cancelled')
  for i = 1, 4 do values[#values + 1] = not state.err and state[i] and string.sub(state[i], 1, 1000) or '' end
  return values
end
local zsets = {schedule = schedule, retry = retry, dead = dead}
local quoted, spaced = '"jid":"' .. id .. '"', '"jid": "' .. id .. '"'
local function is_wanted(text)
  if size > 0 and #text == size and string.sub(text, 1, #head) == head and string.sub(text, -#tail) == tail then return true end
  if id == '' or not string.find(text, id, 1, true) then return false end
  return (string.find(text, quoted, 1, true) or string.find(text, spaced, 1, true)) and true or false
end
if place == '' then
  for _, run in ipairs(running()) do
    if is_wanted(run[4]) then return reply('work', run[4], tostring(run[1]), run[3] .. ' ' .. run[2], run[3], tostring(run[5])) end
  end
  if size == 0 or #head < size then return {'gone'} end
  for _, where in ipairs({'schedule', 'retry', 'dead'}) do
    local score = redis.pcall('ZSCORE', zsets[where], head)
    if type(score) == 'string' then return reply(where, head, score) end
  end
  local at = redis.call('LPOS', queue, head, 'RANK', -1, 'MAXLEN', 50000) or redis.call('LPOS', queue, head, 'MAXLEN', 50000)
  return at and reply('queue', head, '') or {'gone'}
end
local key = place == 'queue' and queue or zsets[place]
if not key then return redis.error_reply('ERR there is no place ' .. place) end
if type_of(key) ~= (place == 'queue' and 'list' or 'zset') then return {'gone'} end
local count = redis.call(place == 'queue' and 'LLEN' or 'ZCARD', key)
local first = offset < 0 and math.max(0, count + offset) or offset
local last = math.min(count, first + 1000) - 1
for from = first, last, 50 do -- Read a few at a time, because jobs may be long.
  for _, text in ipairs(redis.call(place == 'queue' and 'LRANGE' or 'ZRANGE', key, from, math.min(last, from + 49))) do
    if is_wanted(text) and (place == 'queue' or queue_of(text) == name) then
      return reply(place, text, place == 'queue' and '' or redis.call('ZSCORE', key, text))
    end
  end
end
return {'gone'}
