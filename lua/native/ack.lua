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
local reserved, done, jobs, bodies, attempts, errors, meta, events, minutes =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local keep_ms = tonumber(ARGV[2])
local version, keep_default, unique, done_max, watch, last_minute =
  unpack(redis.call('HMGET', meta, 'version', 'keep_ms', 'unique_ms', 'done_max', 'events', 'minute'))
local remembered, failures = redis.call('ZCARD', done), redis.call('HLEN', errors)
-- block: opening, noting
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
if tonumber(version or 1) ~= 1 then
  return redis.error_reply('ERR this queue has schema version ' .. version .. ', these scripts speak 1; nothing was changed')
end
if watch == 'on' or (tonumber(watch) or 0) > now_ms then redis.call('XLEN', events) end
if now_ms - now_ms % 60000 > (tonumber(last_minute) or 0) then redis.call('XLEN', minutes) end
-- end
if #ARGV < 4 or #ARGV > 2002 or #ARGV % 2 == 1 then
  return redis.error_reply('ERR a batch has 1 to 1000 rows of id and token; nothing was changed')
end
if string.find(ARGV[1] .. ARGV[2], '%D') or #ARGV[1] > 13 or #ARGV[2] > 13 then
  return redis.error_reply('ERR keep_ms and now_ms are whole numbers, not negative; nothing was changed')
end
local ids = {}
for i = 3, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
local lines, records = redis.call('HMGET', attempts, unpack(ids)), redis.call('HMGET', jobs, unpack(ids))
local words, keeps, longs, kept, kept_lines, is_kept, is_long = {}, {}, {}, {}, {}, {}, false
for i, id in ipairs(ids) do
  if string.match(lines[i] or '', '^%d+ (%S+) ') ~= ARGV[2 + i * 2] then
    words[i] = (records[i] or lines[i] or redis.call('ZSCORE', done, id)) and 'stale' or 'gone'
  else
    local own, long_bytes = string.match(records[i] or '', '^%d+ %S+ %S+ %S+ %S+ %S+ %S+ (%S+) (%S+) ')
    keeps[i], longs[i] = keep_ms or tonumber(own) or (tonumber(keep_default) or 0), long_bytes ~= '-'
    is_long = is_long or longs[i]
    local known = math.max(keeps[i], (tonumber(unique) or 0))
    if known > 0 and not is_kept[id] and redis.call('ZSCORE', reserved, id) then
      local tried, token, score, priority, worker = string.match(lines[i], '^(%d+) (%S+) (%S+) %S+ (%S+) %S (.*)$')
      kept[#kept + 1], kept[#kept + 2], is_kept[id] = string.format('%d', now_ms + known), id, true
      kept_lines[#kept_lines + 1], kept_lines[#kept_lines + 2] =
        id, tried .. ' ' .. token .. ' ' .. score .. string.format(' %d ', now_ms) .. priority .. ' - ' .. worker
    end
  end
end
if is_long or remembered + #kept > 0 then redis.call('HLEN', bodies) end

if #kept > 0 then
  redis.call('ZREM', reserved, '') -- frees nothing: a drain may go on over maxmemory
  redis.call('HSET', attempts, unpack(kept_lines))
  redis.call('ZADD', done, unpack(kept))
end
local finished, dropped, long, forgotten, was_moved = {}, {}, {}, {}, {}
for i, id in ipairs(ids) do
  local is_held = not words[i] and redis.call('ZREM', reserved, id) == 1
  if not words[i] and not is_held then -- an ack before, or another row of this batch, was first
    words[i] = (was_moved[id] or redis.call('ZSCORE', done, id)) and 'done' or 'stale'
  elseif is_held then
    words[i], was_moved[id], finished[#finished + 1] = 'moved', true, id
    if not is_kept[id] then forgotten[#forgotten + 1] = id end
    if keeps[i] == 0 then
      dropped[#dropped + 1] = id
      if longs[i] then long[#long + 1] = id end
    end
  end
end
if #finished == 0 then return words end
if #dropped > 0 then
  redis.call('HDEL', jobs, unpack(dropped))
  if failures > 0 then redis.call('HDEL', errors, unpack(dropped)) end
  if #long > 0 then redis.call('HDEL', bodies, unpack(long)) end
  if #forgotten > 0 then redis.call('HDEL', attempts, unpack(forgotten)) end
end

-- block: note, forget, minute
local function note(...) -- bookkeeping never fails the verb; what failed is counted
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then redis.pcall('HINCRBY', meta, 'unnoted', 1) end
end
local function forget(key, until_ms, most, batch)
  local old = redis.call('ZRANGEBYSCORE', key, '-inf', until_ms, 'LIMIT', 0, batch)
  local over = math.min(batch, redis.call('ZCARD', key) - most)
  if over > #old then old = redis.call('ZRANGE', key, 0, over - 1) end
  if #old == 0 then return end
  for _, hash in ipairs({jobs, bodies, attempts, errors}) do note('HDEL', hash, unpack(old)) end
  note('ZREM', key, unpack(old))
  note('HINCRBY', meta, 'forgotten', #old)
end
local minute = now_ms - now_ms % 60000
if minute > (tonumber(last_minute) or 0) then
  note('HSET', meta, 'minute', minute)
  local counters = redis.pcall('HGETALL', meta)
  if #counters < 400 then note('XADD', minutes, 'MAXLEN', '~', 1440, minute .. '-0', unpack(counters)) end
end
-- end
note('HINCRBY', meta, 'acked', string.format('%d', #finished))
if remembered + #kept > 0 then pcall(forget, done, now_ms, (tonumber(done_max) or 100000), 10 + #ids) end
if watch == 'on' or (tonumber(watch) or 0) > now_ms then
  for _, id in ipairs(finished) do note('XADD', events, 'MAXLEN', '~', '10000', '*', 'verb', 'ack', 'id', id) end
end
return words
