-- Lease the next ready jobs to a worker.
--
-- Each job gets a token that proves the lease, and its attempt is counted. A job with an invalid record goes to dead
-- and does not stop the batch. `next_ms` is the time until the next due job or expired lease, -1 if there is none.
--
-- moves    ready -> reserved | dead
-- writes   attempts errors meta events minutes wake
-- KEYS     scheduled ready reserved dead jobs bodies attempts errors meta events minutes wake
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          limit     int     how many at most, 1 to 1000
--          worker?   str     the worker's name
--          ttr_ms?   int     duration of the leases; the job's own value when empty
-- returns  moved   (next_ms int) rows (id bytes, token str, attempt int, max_attempts int, ttr_ms int, record bytes, body bytes)
--                  leased
--          empty   (next_ms int)  nothing is ready
--          paused  (next_ms int)  the queue is paused
-- include: keys, args
local version, paused, token, ttr_default, max_default, watch, last_minute =
  unpack(redis.call('HMGET', meta, 'version', 'paused', 'token', 'ttr_ms', 'max_attempts', 'events', 'minute'))
local due = redis.call('ZRANGE', scheduled, '0', '0', 'WITHSCORES')[2] or math.huge
local deadline = redis.call('ZRANGE', reserved, '0', '0', 'WITHSCORES')[2] or math.huge
-- include: opening, noting
if #ARGV < 4 or #ARGV[1] > 13 or string.find(ARGV[1] .. ARGV[2], '%D') or not limit or limit < 1 or limit > 1000 then
  return redis.error_reply('ERR limit is 1 to 1000, now_ms a whole number; nothing was changed')
end
if ARGV[4] ~= '' and (#ARGV[4] > 13 or string.find(ARGV[4], '%D') or ttr_ms == 0) then
  return redis.error_reply('ERR ttr_ms is a whole number, at least 1; nothing was changed')
end
if #worker > 200 or string.find(worker, '%c') then
  return redis.error_reply('ERR a worker name has up to 200 bytes and no control characters; nothing was changed')
end
if token and not string.match(token, '^%d+$') then
  return redis.error_reply('ERR the field token of ' .. meta .. ' is not a number; nothing was changed')
end
local soonest = math.min(due, deadline) -- the next due time or deadline
local function next_ms() return soonest < math.huge and math.max(0, math.ceil(soonest - now_ms)) or -1 end
local heads = redis.call('ZRANGE', ready, '0', string.format('%d', limit - 1), 'WITHSCORES')
if paused or #heads == 0 then return {paused and 'paused' or 'empty', next_ms()} end
local ids = {}
for i = 1, #heads, 2 do ids[#ids + 1] = heads[i] end
local records, lines = redis.call('HMGET', jobs, unpack(ids)), redis.call('HMGET', attempts, unpack(ids))
local last = math.max(token or 0, now_ms * 1000 + (ARGV[1] == '' and clock[2] % 1000 or 0) - 1)
local rows, new_lines, deadlines, unreadable = {}, {}, {}, nil
-- These are strings, because a number that is passed to redis.call costs as much as a command.
local since, proof, lease_of, until_text = string.format(' %d ', now_ms), nil, nil, nil
for i = 1, #ids do
  local id, record, line, body = ids[i], records[i] or '', lines[i], ''
  local ttr, most, long = '-', '-', '-' -- the values of a short header, which has no options
  if not string.find(record, '^%d+:[^\n]*\n') then
    ttr, most, long = string.match(record, '^%d+ %S+ %-?%d+ (%S+) (%S+) %S+ %S+ %S+ (%S+) [^\n]*\n')
  end
  local tried, priority, flag = 0, '-', '-'
  if line then tried, priority, flag = string.match(line, '^(%d+) %S+ %S+ %S+ (%S+) (%S) ') end
  if long and long ~= '-' then body = redis.call('HGET', bodies, id) end
  if not ttr or not tried or not body then
    unreadable = unreadable or {}
    unreadable[#unreadable + 1] = id
  else
    last, tried = last + 1, tried + 1
    proof = string.format('%d', last)
    local lease = ttr_ms or tonumber(ttr) or tonumber(ttr_default) or 30000
    rows[#rows + 1] = {id, proof, tried, tonumber(most) or tonumber(max_default) or 5, lease, record, body}
    new_lines[#new_lines + 1], new_lines[#new_lines + 2] = id, (line and string.format('%d ', tried) or '1 ') ..
      proof .. ' ' .. heads[i * 2] .. since .. priority .. ' ' .. flag .. ' ' .. worker
    if lease ~= lease_of then
      lease_of, until_text, soonest = lease, string.format('%d', now_ms + lease), math.min(soonest, now_ms + lease)
    end
    deadlines[#deadlines + 1], deadlines[#deadlines + 2] = until_text, id
  end
end
local wakes = redis.call('ZCARD', wake) == 0
  and (soonest - now_ms <= 10000 or #ids == limit and redis.call('ZCARD', ready) > limit)
if unreadable then
  redis.call('ZCARD', dead)
  redis.call('HLEN', errors)
end

if not proof or type(redis.pcall('HSET', meta, 'token', proof)) == 'table' then
  -- Over maxmemory, Redis refuses a script whose first write adds data. This write removes nothing.
  redis.call('ZREM', ready, '')
  if proof then redis.call('HSET', meta, 'token', proof) end
end
if proof then
  redis.call('HSET', attempts, unpack(new_lines))
  redis.call('ZADD', reserved, unpack(deadlines))
end
for _, id in ipairs(unreadable or {}) do
  redis.call('HSET', errors, id, cjson.encode({{now_ms, now_ms, worker, 'the record of this job cannot be read'}}))
  redis.call('ZADD', dead, string.format('%d', now_ms), id)
end
redis.call('ZREM', ready, unpack(ids))
-- include: minute
note('HINCRBY', meta, 'reserved', string.format('%d', #rows))
if unreadable then note('HINCRBY', meta, 'dead', #unreadable) end
if wakes then note('ZADD', wake, '0', 'wake') end
if watch == 'on' or (tonumber(watch) or 0) > now_ms then
  for _, id in ipairs(ids) do note('XADD', events, 'MAXLEN', '~', '10000', '*', 'verb', 'reserve', 'id', id, 'worker', worker) end
end
if not proof then return {'empty', next_ms()} end
return {'moved', next_ms(), rows}
