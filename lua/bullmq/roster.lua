-- Who runs what in a queue: the locks of active jobs. Who only waits for work holds none, and is known by its connection.
--
-- At most the 200 oldest runs; none where another program uses the key. `left_ms` is how long a lock still lives, unless its worker renews it; -2 where it is gone, and `lock` empty.
--
-- derived  <prefix>:<queue>:<id>
--          <prefix>:<queue>:<id>:lock
-- KEYS     active  list  ids that run, the oldest run last
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          p        str  before all keys of the queue: bull:mail:
-- returns  listed  (now_ms int)  rows (id bytes, lock str, left_ms int, pb str, name str, processed_on str)
local active = KEYS[1]
if #ARGV < 2 then return redis.error_reply('ERR it takes 2 arguments; nothing was changed') end
-- block: bullmq_opening, read
if #ARGV[1] > 15 or string.find(ARGV[1], '%D') then
  return redis.error_reply('ERR now_ms is a whole number; nothing was changed')
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local p = ARGV[2]
local function read(...)
  local told = redis.pcall(...)
  if type(told) ~= 'table' or not told.err then return told end
  return not string.find(tostring(told.err), 'WRONGTYPE', 1, true) and redis.call(...) or nil
end
-- end
local rows = {}
for _, id in ipairs(read('LRANGE', active, -200, -1) or {}) do
  local lock, told = redis.pcall('GET', p .. id .. ':lock'), redis.pcall('HMGET', p .. id, 'pb', 'name', 'processedOn')
  if told.err then told = {} end
  lock = type(lock) == 'string' and string.sub(lock, 1, 1000) or ''
  rows[#rows + 1] = {id, lock, lock ~= '' and redis.call('PTTL', p .. id .. ':lock') or -2, string.sub(told[1] or '', 1, 1000),
    string.sub(told[2] or '', 1, 1000), string.sub(told[3] or '', 1, 100)}
end
return {'listed', now_ms, rows}
