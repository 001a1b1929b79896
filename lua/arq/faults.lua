-- Find what arq's workers handle wrongly, among the first 500 due jobs and 300 abort requests.
--
-- `number` is how many jobs have the problem, at least; `other` is the second number of the text. If jobs are due and none runs, the
-- row has the first of them, the number of its runs (`other`), how long it has been due (`seconds`) and since when; the caller decides
-- whether a worker takes them.
--
-- derived  arq:job:<id>
--          arq:in-progress:<id>
-- KEYS     ids abort
--          health_check  string  the last report of a worker of the queue
-- ARGV     now_ms?  int  a test's clock; the server's when empty
-- returns  looked  (now_ms int)  rows (kind str, key str, id bytes, number int, other int, seconds int, since_ms? int, name str)
-- include: keys, clock, running
local rows = {}
local function add(kind, key, id, number, other, due_ms)
  local since_ms = due_ms and math.max(0, math.min(now_ms, due_ms))
  rows[#rows + 1] = {kind, key, id, number, other or 0, since_ms and math.floor((now_ms - since_ms) / 1000) or 0, since_ms or false, ids}
end
local READ_LIMIT = 100 -- of a worker: max(5 * max_jobs, 100), arq/worker.py 0.28
local heads = 0
while running[heads + 1] and running[heads + 1][3] == heads do heads = heads + 1 end
if heads >= READ_LIMIT and due_count > heads then
  add('starved', ids, redis.call('ZRANGE', ids, heads, heads)[1], heads, due_count - heads)
end

local leaked, leaks = false, 0
local is_number = type(redis.pcall('ZCARD', abort)) == 'number'
for _, id in ipairs(is_number and redis.call('ZRANGEBYSCORE', abort, '-inf', string.format('%.0f', now_ms - 60000), 'LIMIT', 0, 300) or {}) do
  if redis.call('EXISTS', 'arq:job:' .. id, 'arq:in-progress:' .. id) == 0 then leaked, leaks = leaked or id, leaks + 1 end
end
if leaked then add('abort_leak', abort, leaked, leaks) end

local expired, expired_count = false, 0
for _, id in ipairs(redis.call('ZRANGE', ids, 0, 499)) do
  if redis.call('EXISTS', 'arq:job:' .. id, 'arq:in-progress:' .. id) == 0 then expired, expired_count = expired or id, expired_count + 1 end
end
if expired then add('expired', ids, expired, expired_count) end

if #running == 0 and due_count > 0 then
  local first = redis.call('ZRANGE', ids, 0, 0, 'WITHSCORES')
  local tries = redis.pcall('GET', 'arq:retry:' .. first[1])
  local kind = redis.call('EXISTS', health_check) == 0 and 'no_live_worker' or 'idle_workers'
  tries = type(tries) == 'string' and tonumber(tries) or 0
  add(kind, health_check, first[1], due_count, tries, tonumber(first[2]))
end
return {'looked', now_ms, rows}
