-- All about one job, by its bytes, or by its id.
--
-- A job is asked for by its bytes as a page has them, `head`, `size` and `tail` (`size` 0: nobody knows them), or by its `id`. Without a
-- `place` it is sought among what runs, and by its bytes, all of them, in the sorted sets and in the first and last 50 000 of the queue.
-- With one, it is sought by its bytes or its id among 1000 jobs there, from the rank `offset` on; from the end where that is negative.
-- `executions`, `cursor`, `runtime` and `cancelled` are those of an iterable job, empty of any other.
--
-- derived  <prefix><identity>
--          <prefix><identity>:work
--          <prefix><identity>:workers
--          <prefix>it-<id>
-- KEYS     schedule   zset  job by due (s)
--          retry      zset  job by due (s)
--          queue      list  jobs, the last one is next
--          dead       zset  job by when it died (s)
--          processes  set   identities of processes
-- ARGV     now_ms?     int    a test's clock; the server's when empty
--          prefix      str    before all keys: the namespace and a colon, or nothing
--          id          bytes  its `jid`
--          head        bytes  its bytes, or the first of them
--          size        int    how many it has; 0: nobody knows
--          tail        bytes  its last bytes
--          body_bytes  int    up to so many it comes whole, or up to 4096; -1: always
--          place?      str    schedule, retry, queue or dead
--          offset?     int    a rank there
-- returns  found  (now_ms int, place str, head bytes, size int, tail bytes, score str, token bytes, worker str, beat_ms str,
--                 executions str, cursor bytes, runtime str, cancelled str)
--          gone   no such job
local schedule, retry, queue, dead, processes = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
for _, at in ipairs({5, 7, 9}) do
  if #ARGV < 9 or #ARGV[at] > 15 or not string.find(ARGV[at], at < 9 and '^%-?%d+$' or '^%-?%d*$') then
    return redis.error_reply('ERR it takes 9 arguments, whole numbers where the header says int; nothing was changed')
  end
end
local id, head, size, tail, body_bytes = ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[7])
local place, offset = ARGV[8], tonumber(ARGV[9]) or 0
-- block: clock, sidekiq_prefix, sidekiq_instant, sidekiq_queue_of, sidekiq_processes, sidekiq_held_keys, sidekiq_works
if #ARGV < 1 or #ARGV[1] > 15 or string.find(ARGV[1], '%D') then
  return redis.error_reply('ERR now_ms is a whole number; nothing was changed')
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
if #ARGV < 2 then return redis.error_reply('ERR it takes a prefix, which may be empty; nothing was changed') end
local prefix = ARGV[2]
local function at_ms(value) -- -1 for what is no instant
  local at = tonumber(value)
  if not at or at ~= at or at < 0 or at > 9e15 then return -1 end
  return math.floor((at < 1e11 and at * 1000 or at) + 0.5)
end
local function queue_of(text) -- the queue, and whether it is a job
  local named = '"queue":'
  local start = #text > 65536 and string.sub(text, 1, 4096) or text
  local at, last = string.find(start, named, 1, true)
  local is_plain
  if #text > 65536 then
    is_plain = at and not string.find(string.sub(start, 2, at), '[%[{]')
  else
    is_plain = at and not string.find(start, named, last + 1, true)
  end
  local name = is_plain and string.match(start, '^ ?"([^"\\]+)"', last + 1)
  if name then return name, true end
  local is_read, job = pcall(cjson.decode, text)
  if not is_read or type(job) ~= 'table' or job[1] ~= nil then return 'default', false end
  return type(job.queue) == 'string' and job.queue ~= '' and job.queue or 'default', true
end
local function each_process(look) -- look(identity, info or nil, age of the beat in ms or -1)
  local found = redis.pcall('SSCAN', processes, 0, 'COUNT', 300)
  for at = 1, found.err and 0 or math.min(300, #found[2]) do
    local identity = found[2][at]
    local told = redis.pcall('HMGET', prefix .. identity, 'info', 'beat')
    local beat_ms = at_ms(told[2])
    look(identity, told[1] or nil, beat_ms >= 0 and math.max(0, now_ms - beat_ms) or -1)
  end
  return found.err ~= nil or (tostring(found[1]) == '0' and #found[2] <= 300)
end
local left = 3000
local function each_held_key(identity, look) -- look(key); Sidekiq 6 and older say `workers`
  local is_all = true
  for _, suffix in ipairs({':work', ':workers'}) do
    local key = prefix .. identity .. suffix
    local length = redis.pcall('HLEN', key)
    if type(length) == 'number' and length > left then
      is_all = false
    elseif type(length) == 'number' and length > 0 then
      left = left - length
      look(key)
    end
  end
  return is_all
end
local function each_work(identity, look) -- look(tid, entry as it stands, key)
  return each_held_key(identity, function(key)
    local held = redis.call('HGETALL', key)
    for i = 1, #held, 2 do look(held[i], held[i + 1], key) end
  end)
end
-- end
local name = string.sub(queue, #prefix + 7)
-- block: sidekiq_row, sidekiq_running
local most = body_bytes < 0 and math.huge or math.max(4096, body_bytes)
local function job_row(text, score, token, identity, beat)
  if #text <= most then return {text, #text, '', score, token or '', identity or '', beat or ''} end
  return {string.sub(text, 1, 4096), #text, string.sub(text, -2048), score, token or '', identity or '', beat or ''}
end
local function running() -- of {run_at, tid, identity, payload, age of the beat in ms or -1}; whether those are all
  local found, are_all_looked_at = {}, true
  local are_all_met = each_process(function(identity, _, age_ms)
    local is_all = each_work(identity, function(tid, entry)
      if queue_of(entry) == name then
        local is_read, told = pcall(cjson.decode, entry)
        told = is_read and type(told) == 'table' and told or {}
        local payload = type(told.payload) == 'string' and told.payload or ''
        found[#found + 1] = {tonumber(told.run_at) or 0, tid, identity, payload, age_ms}
      end
    end)
    are_all_looked_at = are_all_looked_at and is_all
  end)
  table.sort(found, function(a, b)
    if a[1] ~= b[1] then return a[1] < b[1] end
    return a[3] .. a[2] < b[3] .. b[2]
  end)
  return found, are_all_met and are_all_looked_at
end
-- end
local function found(where, text, ...)
  local answer = {'found', now_ms, where, unpack(job_row(text, ...))}
  local jid = id ~= '' and id or string.match(text, '"jid": ?"([^"\\]*)"') or ''
  local told = redis.pcall('HMGET', prefix .. 'it-' .. jid, 'ex', 'c', 'rt', 'cancelled')
  for i = 1, 4 do answer[#answer + 1] = not told.err and told[i] and string.sub(told[i], 1, 1000) or '' end
  return answer
end
local zsets = {schedule = schedule, retry = retry, dead = dead}
local quoted, spaced = '"jid":"' .. id .. '"', '"jid": "' .. id .. '"'
local function fits(text)
  if size > 0 and #text == size and string.sub(text, 1, #head) == head and string.sub(text, -#tail) == tail then return true end
  if id == '' or not string.find(text, id, 1, true) then return false end
  return (string.find(text, quoted, 1, true) or string.find(text, spaced, 1, true)) and true or false
end
if place == '' then
  for _, each in ipairs(running()) do
    if fits(each[4]) then return found('work', each[4], tostring(each[1]), each[3] .. ' ' .. each[2], each[3], tostring(each[5])) end
  end
  if size == 0 or #head < size then return {'gone'} end
  for _, where in ipairs({'schedule', 'retry', 'dead'}) do
    local score = redis.pcall('ZSCORE', zsets[where], head)
    if type(score) == 'string' then return found(where, head, score) end
  end
  local at = redis.call('LPOS', queue, head, 'RANK', -1, 'MAXLEN', 50000) or redis.call('LPOS', queue, head, 'MAXLEN', 50000)
  return at and found('queue', head, '') or {'gone'}
end
local key = place == 'queue' and queue or zsets[place]
if not key then return redis.error_reply('ERR there is no place ' .. place) end
local kind = redis.call('TYPE', key)
kind = type(kind) == 'table' and kind.ok or kind
if kind ~= (place == 'queue' and 'list' or 'zset') then return {'gone'} end
local count = redis.call(place == 'queue' and 'LLEN' or 'ZCARD', key)
local first = offset < 0 and math.max(0, count + offset) or offset
local last = math.min(count, first + 1000) - 1
for from = first, last, 50 do -- a few at a time: they may be long
  for _, text in ipairs(redis.call(place == 'queue' and 'LRANGE' or 'ZRANGE', key, from, math.min(last, from + 49))) do
    if fits(text) and (place == 'queue' or queue_of(text) == name) then
      return found(place, text, place == 'queue' and '' or redis.call('ZSCORE', key, text))
    end
  end
end
return {'gone'}
