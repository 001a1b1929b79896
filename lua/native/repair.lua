-- Repair what `check` found, by id: one place for each job, a readable record, no line without an owner.
--
-- Of two places the later one in the net wins. A job in none goes back to ready. A job whose record cannot be read goes to
-- dead; a place's member without any record is dropped, and so are lines that belong to nobody.
--
-- moves    scheduled ready reserved done dead -> ready | dead
-- moves    scheduled ready reserved done dead ->
-- writes   jobs bodies attempts errors meta events minutes wake
-- KEYS     scheduled  zset    id by due (ms)
--          ready      zset    id by priority, then arrival
--          reserved   zset    id by lease deadline (ms)
--          done       zset    id by forget-at (ms)
--          dead       zset    id by died-at (ms)
--          jobs       hash    header and body by id
--          bodies     hash    long bodies by id
--          attempts   hash    what changes, by id
--          errors     hash    failed attempts by id
--          meta       hash    settings and counters
--          events     stream  what happened, while watched
--          minutes    stream  counters per minute
--          wake       zset    the marker that blocked consumers wait on
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          each      (id bytes)
-- returns each  moved  (place str)  repaired; the place is empty where nothing was left to keep
--               fine   there was nothing to repair
--               gone   no such job
local scheduled, ready, reserved, done, dead, jobs, bodies, attempts, errors, meta, events, minutes, wake =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[13]
local version, seq, watch, last_minute = unpack(redis.call('HMGET', meta, 'version', 'seq', 'events', 'minute'))
for _, key in ipairs({scheduled, ready, reserved, done, dead, wake}) do redis.call('ZCARD', key) end
for _, key in ipairs({jobs, bodies, attempts, errors}) do redis.call('HLEN', key) end
for _, key in ipairs({events, minutes}) do redis.call('XLEN', key) end
-- block: opening, sequence, header
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
if version and version ~= '2' and version ~= '1' then
  return redis.error_reply('ERR this queue has schema version ' .. version .. ', these scripts speak 1 and 2; nothing was changed')
end
if seq and not string.match(seq, '^%d+$') then
  return redis.error_reply('ERR the field seq of ' .. meta .. ' is not a number; nothing was changed')
end
local function header(record) -- priority, max_attempts and body_bytes; nothing where it cannot be read
  local priority, most, long = string.match(record, '^%d+ %S+ (%-?%d+) %S+ (%S+) %S+ %S+ %S+ (%S+) [^\n]*\n')
  if priority then return priority, most, long end
  if string.find(record, '^%d+:[^\n]*\n') then return '0', '-', '-' end
end
-- end
if #ARGV < 2 or #ARGV > 1001 then return redis.error_reply('ERR a batch has 1 to 1000 ids; nothing was changed') end
if #ARGV[1] > 13 or string.find(ARGV[1], '%D') then return redis.error_reply('ERR now_ms is a whole number; nothing was changed') end
local order = {{'dead', dead}, {'done', done}, {'reserved', reserved}, {'ready', ready}, {'scheduled', scheduled}}
local words, mended, next_seq = {}, {}, tonumber(seq or 0)
redis.call('ZREM', ready, '') -- frees nothing: this goes on over maxmemory
for at = 2, #ARGV do
  local id = ARGV[at]
  local record, line = redis.call('HGET', jobs, id), redis.call('HGET', attempts, id)
  local priority, _, long = header(record or '')
  local whole = priority and (long == '-' or redis.call('HEXISTS', bodies, id) == 1)
  local tried, own = string.match(line or '', '^(%d+) %S+ %S+ %S+ (%S+) %S .*$')
  local found, place, line_ok = {}, nil, tried or not line
  for _, candidate in ipairs(order) do
    if redis.call('ZSCORE', candidate[2], id) then found[#found + 1] = candidate end
  end
  if found[1] then place = found[1][1] end
  local settled = (whole and (line_ok and (tried or place ~= 'reserved')))
    or (place == 'done' and not record) or (place == 'dead' and record and line_ok)
  local bare = redis.call('HEXISTS', bodies, id) + redis.call('HEXISTS', errors, id) > 0 or line
  if not place and not record and not bare then
    words[#words + 1] = 'gone'
  elseif #found == 1 and settled then
    words[#words + 1] = 'fine'
  else
    local target = whole and (place or 'ready') or record and 'dead' or (place == 'done' and 'done' or '')
    if target == 'reserved' and not tried then target = 'ready' end
    if line and not tried then redis.call('HDEL', attempts, id) end
    if target == 'ready' and place ~= 'ready' then
      next_seq = next_seq + 1
      redis.call('HSET', meta, 'version', 2, 'seq', string.format('%.0f', next_seq))
      redis.call('ZADD', ready, string.format('%.0f', (tonumber(own) or tonumber(priority)) * 2 ^ 40 + next_seq), id)
    elseif target == 'dead' and place ~= 'dead' then
      redis.call('HSET', errors, id, cjson.encode({{now_ms, now_ms, '', 'the record of this job cannot be read'}}))
      redis.call('ZADD', dead, now_ms, id)
    end
    for _, candidate in ipairs(found) do
      if candidate[1] ~= target then redis.call('ZREM', candidate[2], id) end
    end
    if target == '' then
      for _, key in ipairs({bodies, attempts, errors}) do redis.call('HDEL', key, id) end
    end
    words[#words + 1], mended[#mended + 1] = {'moved', target}, id
  end
end
if #mended == 0 then return words end

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
note('HINCRBY', meta, 'repaired', #mended)
note('ZADD', wake, 0, 'wake')
if watch == 'on' or (tonumber(watch) or 0) > now_ms then
  for _, id in ipairs(mended) do note('XADD', events, 'MAXLEN', '~', 10000, '*', 'verb', 'repair', 'id', id) end
end
return words
