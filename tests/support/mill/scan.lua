-- A step of a walk over the shared place: the jobs of one queue among the next 50 of all.
--
-- derived  <prefix>:job:<id>  a job
-- KEYS     deferred  list  ids of all queues
-- ARGV     now_ms?     int  a test's clock; the server's when empty
--          prefix      str  of all its keys
--          place       str  which
--          offset      int  a rank in the place
--          limit       int  how many jobs at most
--          body_bytes  int  how much of each body
--          queue       str  whose jobs
-- returns  page  (now_ms int, total int, next? int) rows (id bytes, bytes int, body bytes, call str, error str, worker str, due_ms? int, deadline_ms? int, since_ms? int, facts str)
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
if ARGV[3] ~= 'deferred' then return redis.error_reply('ERR no such place') end
local total, offset, limit, body_bytes = redis.call('LLEN', KEYS[1]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local rows, at = {}, offset
for _, id in ipairs(redis.call('LRANGE', KEYS[1], offset, offset + 49)) do
  if #rows == limit then break end
  at = at + 1
  local v = redis.call('HMGET', ARGV[2] .. ':job:' .. id, 'body', 'call', 'error', 'worker', 'due_ms', 'deadline_ms', 'since_ms', 'facts', 'queue')
  if v[9] == ARGV[7] then
    local body = v[1] or ''
    local part = body_bytes < 0 and body or string.sub(body, 1, body_bytes)
    rows[#rows + 1] = {id, #body, part, v[2] or '', v[3] or '', v[4] or '', v[5] or '', v[6] or '', v[7] or '', v[8] or '[]'}
  end
end
return {'page', now_ms, total, at < total and at or '', rows}
