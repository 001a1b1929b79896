-- One job, by its id.
--
-- derived  <prefix>:job:<id>  a job
-- KEYS     scheduled  list  ids
--          deferred  list  ids
--          queued  list  ids
--          ready  list  ids
--          started  list  ids
--          intermediate  list  ids
--          finished  list  ids
--          failed  list  ids
--          canceled  list  ids
-- ARGV     now_ms?     int    a test's clock; the server's when empty
--          prefix      str    of all its keys
--          id          bytes  the job
--          body_bytes  int    a longer body is left out; -1 for all of it
-- returns  found  (now_ms int, place str, id bytes, bytes int, body bytes, call str, error str, worker str, due_ms? int, deadline_ms? int, since_ms? int, facts str)  here it is
--          gone   no such job
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
for at, name in ipairs(places) do
  for _, id in ipairs(redis.call('LRANGE', KEYS[at], 0, -1)) do
    if id == ARGV[3] then
      local found = row(id, -1)
      if tonumber(ARGV[4]) >= 0 and found[2] > tonumber(ARGV[4]) then found[3] = '' end
      return {'found', now_ms, name, unpack(found)}
    end
  end
end
return {'gone'}
