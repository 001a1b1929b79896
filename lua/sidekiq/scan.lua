-- A step of a walk through all jobs of a place, which finds those of a queue, each once.
--
-- `offset` is a rank among the jobs of all queues. Up to 600 are looked at,
-- and up to `limit` found. `total` is how many stand there, `next` the rank behind the last that was looked at, empty at the end.
-- The columns are those of `page.lua`.
--
-- KEYS     schedule  zset  job by due (s)
--          retry     zset  job by due (s)
--          queue     list  jobs, the last one is next
--          dead      zset  job by when it died (s)
-- ARGV     now_ms?     int  a test's clock; the server's when empty
--          prefix      str  before all keys: the namespace and a colon, or nothing
--          place       str  schedule, retry or dead
--          offset      int  how many to pass over
--          limit       int  how many at most, 1 to 1000
--          body_bytes  int  jobs of up to so many bytes come whole; -1: all
-- returns  page  (now_ms int, total int, next? int)
--                rows (head bytes, size int, tail bytes, score str, token bytes, worker str, beat_ms str)
local schedule, retry, queue, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
for _, at in ipairs({4, 5, 6}) do
  if #ARGV < 6 or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d+$') then
    return redis.error_reply('ERR it takes 6 arguments, whole numbers where the header says int; nothing was changed')
  end
end
local place, offset, limit, body_bytes = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
if limit < 1 or limit > 1000 then return redis.error_reply('ERR limit is 1 to 1000') end
-- block: clock, sidekiq_prefix, sidekiq_queue_of, sidekiq_row
if #ARGV < 1 or #ARGV[1] > 15 or string.find(ARGV[1], '%D') then
  return redis.error_reply('ERR now_ms is a whole number; nothing was changed')
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
if #ARGV < 2 then return redis.error_reply('ERR it takes a prefix, which may be empty; nothing was changed') end
local prefix = ARGV[2]
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
local most = body_bytes < 0 and math.huge or math.max(4096, body_bytes)
local function job_row(text, score, token, identity, beat)
  if #text <= most then return {text, #text, '', score, token or '', identity or '', beat or ''} end
  return {string.sub(text, 1, 4096), #text, string.sub(text, -2048), score, token or '', identity or '', beat or ''}
end
-- end
local key = ({schedule = schedule, retry = retry, dead = dead})[place]
if not key then return redis.error_reply('ERR there is no place ' .. place .. ' that queues share') end
local name = string.sub(queue, #prefix + 7)
local rows, rank = {}, math.max(0, offset)
local card = redis.call('ZCARD', key)
local stop = math.min(card, rank + 600)
while rank < stop and #rows < limit do -- a few at a time: they may be long
  local members = redis.call('ZRANGE', key, rank, math.min(stop, rank + 100) - 1, 'WITHSCORES')
  for i = 1, #members, 2 do
    if #rows == limit then break end
    rank = rank + 1
    if queue_of(members[i]) == name then rows[#rows + 1] = job_row(members[i], members[i + 1]) end
  end
end
return {'page', now_ms, card, rank < card and rank or '', rows}
