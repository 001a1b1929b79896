-- Lease due jobs to a worker, longest due first.
--
-- The token is the end of the lease, with a fraction that no other program writes. The end has the unit of the option, or
-- with unit auto that of the job's due time. Ids without a body are skipped and stay.
--
-- moves    due -> reserved
-- KEYS     jobs queued reserved expiries
-- ARGV     now_ms?  int  a test's clock; the server's when empty
--          limit    int  jobs at most, 1 to 1000
--          worker?  str  its name, at most 200 bytes; this system does not store it
--          ttr_ms?  int  length of the lease; a minute when empty
--          unit     str  ms, s or auto
-- returns  moved  (now_ms int) rows (id bytes, score bytes, bytes int, body bytes, has_body bool, expiries int)  leased
--          empty  (next_ms int)  nothing is due
-- include: keys, integers, key_types, server_time
local limit, worker, ttr_ms, unit, MS = tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]) or 60000, ARGV[5], '100000000000'
if #ARGV[1] > 13 or string.find(ARGV[1], '%D') or not limit or limit < 1 or limit > 1000 or #worker > 200
  or ttr_ms < 1 or ttr_ms > 31536000000 or not ({ms = 1, s = 1, auto = 1})[unit] then
  return redis.error_reply('ERR limit is 1 to 1000, ttr_ms at least 1 and at most a year, the unit ms, s or auto; nothing was changed')
end
-- include: is_ms, due_jobs, wait_ms
local found, rows, ids, leases = find_due(limit), {}, {}, {}
if #found == 0 then return {'empty', wait_ms(queued, '(' .. now_s, '(' .. now)} end
local deadline_ms = now_ms + ttr_ms + (clock[2] % 999 + 1) / 1000
for i, job in ipairs(found) do
  local id, score, body = job[1], string.format('%.17g', is_ms(job[2]) and deadline_ms or deadline_ms / 1000), job[3]
  ids[i], leases[2 * i - 1], leases[2 * i] = id, score, id
  rows[i] = {id, score, #body, body, 1}
end
local expired = redis.call('ZMSCORE', expiries, unpack(ids))
for i, row in ipairs(rows) do row[6] = tonumber(expired[i] or 0) end

redis.call('ZREMRANGEBYRANK', queued, 1, 0) -- frees nothing: a drain may go on over maxmemory
redis.call('ZADD', reserved, unpack(leases))
redis.call('ZREM', queued, unpack(ids))
return {'moved', now_ms, rows}
