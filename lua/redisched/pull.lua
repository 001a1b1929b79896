-- Pull due jobs out of the queue, longest due first: no lease, no second attempt.
--
-- Ids without a body are skipped and stay. A body stays while another worker holds a lease on the job.
--
-- moves    due ->
-- writes   jobs expiries
-- KEYS     jobs queued reserved expiries
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          limit    int  jobs at most, 1 to 1000
-- returns  moved  (now_ms int) rows (id bytes, score bytes, bytes int, body bytes, has_body bool, expiries int)  pulled
--          empty  (next_ms int)  nothing is due
-- include: keys, integers, key_types, server_time, args
local MS = '100000000000'
if #ARGV[1] > 13 or string.find(ARGV[1], '%D') or not limit or limit < 1 or limit > 1000 then
  return redis.error_reply('ERR limit is 1 to 1000, now_ms a whole number; nothing was changed')
end
-- include: due_jobs, wait_ms
local found, rows, ids = find_due(limit), {}, {}
if #found == 0 then return {'empty', wait_ms(queued, '(' .. now_s, '(' .. now)} end
for i, job in ipairs(found) do
  local id, body = job[1], job[3]
  ids[i], rows[i] = id, {id, '', #body, body, 1, tonumber(redis.call('ZSCORE', expiries, id) or 0)}
end

local held, free = redis.call('ZMSCORE', reserved, unpack(ids)), {}
for i, id in ipairs(ids) do
  if not held[i] then free[#free + 1] = id end
end
redis.call('ZREM', queued, unpack(ids))
if #free > 0 then redis.call('HDEL', jobs, unpack(free)) end
redis.pcall('ZREM', expiries, unpack(ids))
return {'moved', now_ms, rows}
