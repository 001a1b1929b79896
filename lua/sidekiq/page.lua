-- A page of the jobs of a queue in a place, in its order: of `queue` the next one first.
--
-- `schedule`, `retry` and `dead` hold the jobs of all queues: the first 600 are looked through for those of this one, `offset` counts
-- its own, and `total` is how many were found; `of` is about how many there are, where that is not all. `exact` is false of `work` where
-- not all of it was looked at: of more than 300 processes, or of more than 3000 running jobs, `total` is how many were met.
-- A job of up to 4096 bytes, or `body_bytes` if that is more, is whole in `head`; of a longer one `head` has the first
-- 4096, `tail` the last 2048. `score` is as it stands there; in `work` it is when the run began. There `token` is the identity of the
-- process and its thread, and `beat_ms` how long ago the process gave its last sign of life, -1 unknown.
--
-- derived  <prefix><identity>
--          <prefix><identity>:work
--          <prefix><identity>:workers
-- KEYS     schedule   zset  job by due (s)
--          retry      zset  job by due (s)
--          queue      list  jobs, the last one is next
--          dead       zset  job by when it died (s)
--          processes  set   identities of processes
-- ARGV     now_ms?     int   a test's clock; the server's when empty
--          prefix      str   before all keys: the namespace and a colon, or nothing
--          place       str   schedule, retry, queue, work or dead
--          offset      int   how many to pass over; -1 for the last page
--          limit       int   how many at most, 1 to 1000
--          body_bytes  int   jobs of up to so many bytes come whole; -1: all
-- returns  page  (now_ms int, total int, of? int, exact bool)
--                rows (head bytes, size int, tail bytes, score str, token bytes, worker str, beat_ms str)
local schedule, retry, queue, dead, processes = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
for _, at in ipairs({4, 5, 6}) do
  if #ARGV < 6 or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d+$') then
    return redis.error_reply('ERR it takes 6 arguments, whole numbers where the header says int; nothing was changed')
  end
end
local place, offset, limit, body_bytes = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
if limit < 1 or limit > 1000 then return redis.error_reply('ERR limit is 1 to 1000') end
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
local rows = {}
if place == 'queue' then
  local total = redis.call('LLEN', queue)
  offset = offset < 0 and math.max(0, total - limit) or offset
  local found = offset < total and redis.call('LRANGE', queue, math.max(-total, -offset - limit), -offset - 1) or {}
  for at = #found, 1, -1 do rows[#rows + 1] = job_row(found[at], '') end
  return {'page', now_ms, total, '', 1, rows}
end
local found, of, is_all = {}, '', true
if place == 'work' then
  local works
  works, is_all = running()
  for at, each in ipairs(works) do
    found[at] = {each[4], tostring(each[1]), each[3] .. ' ' .. each[2], each[3], tostring(each[5])}
  end
else
  local key = ({schedule = schedule, retry = retry, dead = dead})[place]
  if not key then return redis.error_reply('ERR there is no place ' .. place) end
  local card = redis.call('ZCARD', key)
  local looked = math.min(card, 600)
  for from = 0, looked - 1, 100 do -- a few at a time: they may be long
    local members = redis.call('ZRANGE', key, from, math.min(looked, from + 100) - 1, 'WITHSCORES')
    for i = 1, #members, 2 do
      if queue_of(members[i]) == name then found[#found + 1] = {members[i], members[i + 1]} end
    end
  end
  if looked < card then of = math.floor(#found * card / looked + 0.5) end
end
local first = offset < 0 and math.max(0, #found - limit) or offset
for at = first + 1, math.min(#found, first + limit) do rows[#rows + 1] = job_row(unpack(found[at])) end
return {'page', now_ms, #found, of, is_all and 1 or 0, rows}
