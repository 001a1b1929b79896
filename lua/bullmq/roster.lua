-- List the workers of a queue by the locks of active jobs. An idle worker has no lock, and is known by its connection.
--
-- The reply has at most the 200 oldest of the `total` runs, and none if another program uses the key. `left_ms` is the time until a lock expires unless
-- its worker renews it. Without a lock it is -2, and `lock` is empty.
--
-- derived  <prefix>:<queue>:<id>
--          <prefix>:<queue>:<id>:lock
-- KEYS     active
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          p        str  prefix of all keys of the queue: bull:mail:
-- returns  listed  (now_ms int, total int)  rows (id bytes, lock str, left_ms int, pb str, name str, processed_on str)
-- include: keys
if #ARGV < 2 then return redis.error_reply('ERR it takes 2 arguments; nothing was changed') end
-- include: opening, read
local rows = {}
for _, id in ipairs(read('LRANGE', active, -200, -1) or {}) do
  local lock, values = redis.pcall('GET', p .. id .. ':lock'), redis.pcall('HMGET', p .. id, 'pb', 'name', 'processedOn')
  if values.err then values = {} end
  lock = type(lock) == 'string' and string.sub(lock, 1, 1000) or ''
  rows[#rows + 1] = {id, lock, lock ~= '' and redis.call('PTTL', p .. id .. ':lock') or -2, string.sub(values[1] or '', 1, 1000),
    string.sub(values[2] or '', 1, 1000), string.sub(values[3] or '', 1, 100)}
end
return {'listed', now_ms, read('LLEN', active) or 0, rows}
