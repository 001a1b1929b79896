-- Ack leased jobs: their worker has finished them.
--
-- With `keep_ms`, a job stays in done with its body. With only `unique_ms`, its id stays without the body. Otherwise
-- the job is deleted at once.
--
-- moves    reserved -> | done
-- forgets  done
-- writes   jobs bodies attempts errors meta events minutes
-- KEYS     reserved done jobs bodies attempts errors meta events minutes
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          keep_ms?  int     how long the job stays in done; the job's own value when empty
--          each      (id bytes, token str)
-- returns each  moved  acked
--               done   acked before by the same lease
--               stale  this lease is over; another worker may hold the job
--               gone   no such job
-- include: keys, args
local version, keep_default, unique, done_max, watch, last_minute =
  unpack(redis.call('HMGET', meta, 'version', 'keep_ms', 'unique_ms', 'done_max', 'events', 'minute'))
local kept_before, failures = redis.call('ZCARD', done), redis.call('HLEN', errors)
-- include: opening, noting, batch_size
if #ARGV[1] > 13 or #ARGV[2] > 13 or string.find(ARGV[1] .. ARGV[2], '%D') then
  return redis.error_reply('ERR keep_ms and now_ms are whole numbers, not negative; nothing was changed')
end
local ids = {}
for i = 3, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
local lines, records = redis.call('HMGET', attempts, unpack(ids)), redis.call('HMGET', jobs, unpack(ids))
-- `outcomes` and `bodied` are by row; `kept` has scores and ids, and each id as a key.
local outcomes, bodied, kept, kept_lines, has_long = {}, {}, nil, nil, nil
for i = 1, #ids do
  local id, line, record = ids[i], lines[i], records[i]
  if string.match(line or '', '^%d+ (%S+) ') ~= ARGV[2 + i * 2] then
    outcomes[i] = (record or line or redis.call('ZSCORE', done, id)) and 'stale' or 'gone'
  else
    local own, long_bytes = '-', '-' -- the values of a short header, which has no options
    if not record or not string.find(record, '^%d+:') then
      own, long_bytes = string.match(record or '', '^%d+ %S+ %S+ %S+ %S+ %S+ %S+ (%S+) (%S+) ')
    end
    local keep = keep_ms or tonumber(own) or tonumber(keep_default) or 0
    bodied[i] = keep > 0 and 'kept' or long_bytes ~= '-' and 'long' or 'short'
    has_long = has_long or long_bytes ~= '-'
    local retained = math.max(keep, tonumber(unique) or 0)
    if retained > 0 and not (kept and kept[id]) and redis.call('ZSCORE', reserved, id) then
      local tried, token, score, priority, rest = string.match(line, '^(%d+) (%S+) (%S+) %S+ (%S+) %S (.*)$')
      kept, kept_lines = kept or {}, kept_lines or {}
      kept[#kept + 1], kept[#kept + 2], kept[id] = string.format('%d', now_ms + retained), id, true
      kept_lines[#kept_lines + 1], kept_lines[#kept_lines + 2] =
        id, tried .. ' ' .. token .. ' ' .. score .. string.format(' %d ', now_ms) .. priority .. ' - ' .. rest
    end
  end
end
if has_long or kept or kept_before > 0 then redis.call('HLEN', bodies) end

if kept then
  redis.call('ZREM', reserved, '') -- removes nothing, but lets the drain continue over maxmemory
  redis.call('HSET', attempts, unpack(kept_lines))
  redis.call('ZADD', done, unpack(kept))
end
local moved, dropped, forgotten, long, was_moved = 0, {}, {}, nil, nil
for i = 1, #ids do
  local id = ids[i]
  if not outcomes[i] and redis.call('ZREM', reserved, id) == 1 then
    outcomes[i], moved = 'moved', moved + 1
    if was_moved then was_moved[id] = true end
    if not (kept and kept[id]) then forgotten[#forgotten + 1] = id end
    if bodied[i] ~= 'kept' then dropped[#dropped + 1] = id end
    if bodied[i] == 'long' then
      long = long or {}
      long[#long + 1] = id
    end
  elseif not outcomes[i] then -- An earlier ack, or an earlier row of this batch, removed the job.
    if not was_moved then
      was_moved = {}
      for row = 1, i do was_moved[ids[row]] = outcomes[row] == 'moved' or was_moved[ids[row]] end
    end
    outcomes[i] = (was_moved[id] or redis.call('ZSCORE', done, id)) and 'done' or 'stale'
  end
end
if moved == 0 then return outcomes end
if #dropped > 0 then
  redis.call('HDEL', jobs, unpack(dropped))
  if failures > 0 then redis.call('HDEL', errors, unpack(dropped)) end
  if long then redis.call('HDEL', bodies, unpack(long)) end
  if #forgotten > 0 then redis.call('HDEL', attempts, unpack(forgotten)) end
end
-- include: minute
note('HINCRBY', meta, 'acked', string.format('%d', moved))
if watch == 'on' or (tonumber(watch) or 0) > now_ms then
  for i, word in ipairs(outcomes) do
    if word == 'moved' then note('XADD', events, 'MAXLEN', '~', '10000', '*', 'verb', 'ack', 'id', ids[i]) end
  end
end
if not kept and kept_before == 0 then return outcomes end
-- include: forget
pcall(forget, done, now_ms, (tonumber(done_max) or 100000), 10 + #ids)
return outcomes
