-- Ack leased jobs: their worker has finished them.
--
-- A kept job stays in done with its body; with a unique window alone only its id stays. Otherwise it is gone at once.
--
-- moves    reserved -> | done
-- forgets  done
-- writes   jobs bodies attempts errors meta events minutes
-- KEYS     reserved   zset    id by lease deadline (ms)
--          done       zset    id by forget-at (ms)
--          jobs       hash    header and body by id
--          bodies     hash    long bodies by id
--          attempts   hash    what changes, by id
--          errors     hash    failed attempts by id
--          meta       hash    settings and counters
--          events     stream  what happened, while watched
--          minutes    stream  counters per minute
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          keep_ms?  int     how long done remembers; the job's own when empty
--          each      (id bytes, token str)
-- returns each  moved  acked
--               done   the same lease acked it before
--               stale  this lease is over; somebody else may hold the job
--               gone   no such job
local reserved, done, jobs, bodies, attempts, errors, meta, events, minutes = unpack(KEYS)
local keep_ms = tonumber(ARGV[2])
local version, keep_default, unique, done_max, watch, last_minute =
  unpack(redis.call('HMGET', meta, 'version', 'keep_ms', 'unique_ms', 'done_max', 'events', 'minute'))
local remembered, failures = redis.call('ZCARD', done), redis.call('HLEN', errors)
-- block: opening, noting
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
if version and version ~= '2' and version ~= '1' then
  return redis.error_reply('ERR this queue has schema version ' .. version .. ', these scripts speak 1 and 2; nothing was changed')
end
last_minute = tonumber(last_minute) or 0
if watch == 'on' or (tonumber(watch) or 0) > now_ms then redis.call('XLEN', events) end
if now_ms - now_ms % 60000 > last_minute then redis.call('XLEN', minutes) end
-- end
if #ARGV < 4 or #ARGV > 2002 or #ARGV % 2 == 1 then
  return redis.error_reply('ERR a batch has 1 to 1000 rows of id and token; nothing was changed')
end
if #ARGV[1] + #ARGV[2] > 0 and (#ARGV[1] > 13 or #ARGV[2] > 13 or string.find(ARGV[1] .. ARGV[2], '%D')) then
  return redis.error_reply('ERR keep_ms and now_ms are whole numbers, not negative; nothing was changed')
end
local ids = {}
for i = 3, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
local lines, records = redis.call('HMGET', attempts, unpack(ids)), redis.call('HMGET', jobs, unpack(ids))
local words, bodied, kept, kept_lines, has_long = {}, {}, nil, nil, nil -- by row; scores and ids, each id as a key, too
for i = 1, #ids do
  local id, line, record = ids[i], lines[i], records[i]
  if string.match(line or '', '^%d+ (%S+) ') ~= ARGV[2 + i * 2] then
    words[i] = (record or line or redis.call('ZSCORE', done, id)) and 'stale' or 'gone'
  else
    local own, long_bytes = '-', '-' -- of a short header, which says that all is default
    if not record or not string.find(record, '^%d+:') then
      own, long_bytes = string.match(record or '', '^%d+ %S+ %S+ %S+ %S+ %S+ %S+ (%S+) (%S+) ')
    end
    local keep = keep_ms or tonumber(own) or tonumber(keep_default) or 0
    bodied[i] = keep > 0 and 'kept' or long_bytes ~= '-' and 'long' or 'short'
    has_long = has_long or long_bytes ~= '-'
    local known = math.max(keep, tonumber(unique) or 0)
    if known > 0 and not (kept and kept[id]) and redis.call('ZSCORE', reserved, id) then
      local tried, token, score, priority, rest = string.match(line, '^(%d+) (%S+) (%S+) %S+ (%S+) %S (.*)$')
      kept, kept_lines = kept or {}, kept_lines or {}
      kept[#kept + 1], kept[#kept + 2], kept[id] = string.format('%d', now_ms + known), id, true
      kept_lines[#kept_lines + 1], kept_lines[#kept_lines + 2] =
        id, tried .. ' ' .. token .. ' ' .. score .. string.format(' %d ', now_ms) .. priority .. ' - ' .. rest
    end
  end
end
if has_long or kept or remembered > 0 then redis.call('HLEN', bodies) end

if kept then
  redis.call('ZREM', reserved, '') -- frees nothing: a drain may go on over maxmemory
  redis.call('HSET', attempts, unpack(kept_lines))
  redis.call('ZADD', done, unpack(kept))
end
local moved, dropped, forgotten, long, was_moved = 0, {}, {}, nil, nil
for i = 1, #ids do
  local id = ids[i]
  if not words[i] and redis.call('ZREM', reserved, id) == 1 then
    words[i], moved = 'moved', moved + 1
    if was_moved then was_moved[id] = true end
    if not (kept and kept[id]) then forgotten[#forgotten + 1] = id end
    if bodied[i] ~= 'kept' then dropped[#dropped + 1] = id end
    if bodied[i] == 'long' then
      long = long or {}
      long[#long + 1] = id
    end
  elseif not words[i] then -- an ack before, or another row of this batch, was first
    if not was_moved then
      was_moved = {}
      for row = 1, i do was_moved[ids[row]] = words[row] == 'moved' or was_moved[ids[row]] end
    end
    words[i] = (was_moved[id] or redis.call('ZSCORE', done, id)) and 'done' or 'stale'
  end
end
if moved == 0 then return words end
if #dropped > 0 then
  redis.call('HDEL', jobs, unpack(dropped))
  if failures > 0 then redis.call('HDEL', errors, unpack(dropped)) end
  if long then redis.call('HDEL', bodies, unpack(long)) end
  if #forgotten > 0 then redis.call('HDEL', attempts, unpack(forgotten)) end
end

-- block: note, minute
local function note(...) -- bookkeeping never fails the verb; what failed is counted
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then redis.pcall('HINCRBY', meta, 'unnoted', 1) end
end
local minute = now_ms - now_ms % 60000
if minute > (tonumber(last_minute) or 0) then
  note('HSET', meta, 'minute', minute)
  local counters = redis.pcall('HGETALL', meta)
  if #counters < 400 then note('XADD', minutes, 'MAXLEN', '~', 1440, minute .. '-0', unpack(counters)) end
end
-- end
note('HINCRBY', meta, 'acked', string.format('%d', moved))
if watch == 'on' or (tonumber(watch) or 0) > now_ms then
  for i, word in ipairs(words) do
    if word == 'moved' then note('XADD', events, 'MAXLEN', '~', '10000', '*', 'verb', 'ack', 'id', ids[i]) end
  end
end
if not kept and remembered == 0 then return words end

-- block: forget
local function forget(key, until_ms, most, batch)
  local old = redis.call('ZRANGEBYSCORE', key, '-inf', until_ms, 'LIMIT', 0, batch)
  local over = math.min(batch, redis.call('ZCARD', key) - most)
  if over > #old then old = redis.call('ZRANGE', key, 0, over - 1) end
  if #old == 0 then return end
  for _, hash in ipairs({jobs, bodies, attempts, errors}) do note('HDEL', hash, unpack(old)) end
  note('ZREM', key, unpack(old))
  note('HINCRBY', meta, 'forgotten', #old)
end
-- end
pcall(forget, done, now_ms, (tonumber(done_max) or 100000), 10 + #ids)
return words
