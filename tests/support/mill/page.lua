-- A page of the jobs of a place, in its order.
--
-- derived  <prefix>:job:<id>  a job
-- KEYS     scheduled  list  ids
--          deferred  list  ids of all queues
--          queued  list  ids
--          ready  list  ids
--          started  list  ids
--          intermediate  list  ids
--          finished  list  ids
--          failed  list  ids
--          canceled  list  ids
-- ARGV     now_ms?     int  a test's clock; the server's when empty
--          prefix      str  of all its keys
--          place       str  which
--          offset      int  how many to pass over; -1: the last page, -1 - n: the one that ends n before the end
--          limit       int  how many at most
--          body_bytes  int  how much of each body
--          queue       str  whose jobs of the shared place are listed, among its first 100
-- returns  page  (now_ms int, total int, of? int) rows (id bytes, bytes int, body bytes, call str, error str, worker str, due_ms? int, deadline_ms? int, since_ms? int, facts str)
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local places = {'scheduled', 'deferred', 'queued', 'ready', 'started', 'intermediate', 'finished', 'failed', 'canceled'}
local function row(id, body_bytes)
  local job = ARGV[2] .. ':job:' .. id
  local v = redis.call('HMGET', job, 'body', 'call', 'error', 'worker', 'due_ms', 'deadline_ms', 'since_ms', 'facts')
  local body = v[1] or ''
  local part = body_bytes < 0 and body or string.sub(body, 1, body_bytes)
  return {id, #body, part, v[2] or '', v[3] or '', v[4] or '', v[5] or '', v[6] or '', v[7] or '', v[8] or '[]'}
end
local key
for at, name in ipairs(places) do if name == ARGV[3] then key = KEYS[at] end end
if not key then return redis.error_reply('ERR no such place') end
local total, offset, limit, of = redis.call('LLEN', key), tonumber(ARGV[4]), tonumber(ARGV[5]), ''
local ids
if ARGV[3] == 'deferred' then
  local seen = redis.call('LRANGE', key, 0, 99)
  ids = {}
  for _, id in ipairs(seen) do
    if redis.call('HGET', ARGV[2] .. ':job:' .. id, 'queue') == ARGV[7] then ids[#ids + 1] = id end
  end
  if total > #seen then of = math.max(#ids, math.floor(#ids * total / #seen)) end
  total = #ids
end
if offset < 0 then offset = math.max(0, total - limit + offset + 1) end
local rows = {}
if ids then
  for at = offset + 1, math.min(#ids, offset + limit) do rows[#rows + 1] = row(ids[at], tonumber(ARGV[6])) end
else
  for _, id in ipairs(redis.call('LRANGE', key, offset, offset + limit - 1)) do
    rows[#rows + 1] = row(id, tonumber(ARGV[6]))
  end
end
return {'page', now_ms, total, of, rows}
