-- Requeue dead jobs, or done ones whose body was kept: they run again.
--
-- moves    dead done -> ready
-- writes   attempts meta events minutes wake
-- KEYS     scheduled  zset    id by due (ms)
--          ready      zset    id by priority, then arrival
--          reserved   zset    id by lease deadline (ms)
--          done       zset    id by forget-at (ms)
--          dead       zset    id by died-at (ms)
--          jobs       hash    header and body by id
--          bodies     hash    long bodies by id
--          attempts   hash    what changes, by id
--          meta       hash    settings and counters
--          events     stream  what happened, while watched
--          minutes    stream  counters per minute
--          wake       zset    the marker that blocked consumers wait on
-- ARGV     now_ms?        int    a test's clock; the server's when empty
--          keep_attempts? bool   count on from where they were, instead of from 0
--          each           (id bytes)
-- returns each  moved        requeued
--               wrong_place  (place str)  it is neither dead nor done
--               bodyless     its body was not kept, it cannot run again
--               gone         no such job
local scheduled, ready, reserved, done, dead, jobs, bodies, attempts, meta, events, minutes, wake =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local keep_attempts = ARGV[2] == '1'
local version, seq, watch, last_minute = unpack(redis.call('HMGET', meta, 'version', 'seq', 'events', 'minute'))
for _, key in ipairs({scheduled, ready, reserved, done, dead, wake}) do redis.call('ZCARD', key) end
for _, key in ipairs({jobs, bodies, attempts}) do redis.call('HLEN', key) end
for _, key in ipairs({events, minutes}) do redis.call('XLEN', key) end
-- block: opening, sequence, place_of, header
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
if version and version ~= '2' and version ~= '1' then
  return redis.error_reply('ERR this queue has schema version ' .. version .. ', these scripts speak 1 and 2; nothing was changed')
end
if seq and not string.match(seq, '^%d+$') then
  return redis.error_reply('ERR the field seq of ' .. meta .. ' is not a number; nothing was changed')
end
local places = {scheduled = scheduled, ready = ready, reserved = reserved, done = done, dead = dead}
local function place_of(id)
  for name, key in pairs(places) do
    if redis.call('ZSCORE', key, id) then return name end
  end
end
local function header(record) -- priority, max_attempts and body_bytes; nothing where it cannot be read
  local priority, most, long = string.match(record, '^%d+ %S+ (%-?%d+) %S+ (%S+) %S+ %S+ %S+ (%S+) [^\n]*\n')
  if priority then return priority, most, long end
  if string.find(record, '^%d+:[^\n]*\n') then return '0', '-', '-' end
end
-- end
if #ARGV < 3 or #ARGV > 1002 then return redis.error_reply('ERR a batch has 1 to 1000 ids; nothing was changed') end
if #ARGV[1] > 13 or string.find(ARGV[1], '%D') then return redis.error_reply('ERR now_ms is a whole number; nothing was changed') end
local words, arrivals, lines, seen, next_seq = {}, {}, {}, {}, tonumber(seq or 0)
local leaves = {done = {}, dead = {}}
for at = 3, #ARGV do
  local id = ARGV[at]
  local place = seen[id] or place_of(id)
  local priority, _, long = header(redis.call('HGET', jobs, id) or '')
  if not leaves[place] then
    words[#words + 1] = place and {'wrong_place', place} or 'gone'
  elseif not priority or (long ~= '-' and redis.call('HEXISTS', bodies, id) == 0) then
    words[#words + 1] = 'bodyless'
  else
    local tried, own = string.match(redis.call('HGET', attempts, id) or '', '^(%d+) %S+ %S+ %S+ (%S+) ')
    words[#words + 1], seen[id], next_seq = 'moved', 'ready', next_seq + 1
    local score = string.format('%.0f', (tonumber(own) or tonumber(priority)) * 2 ^ 40 + next_seq)
    arrivals[#arrivals + 1], arrivals[#arrivals + 2] = score, id
    lines[#lines + 1], lines[#lines + 2] =
      id, table.concat({keep_attempts and tried or 0, '-', score, now_ms, own or '-', '-', ''}, ' ')
    table.insert(leaves[place], id)
  end
end
if #arrivals == 0 then return words end

redis.call('ZREM', dead, '') -- frees nothing: a drain may go on over maxmemory
redis.call('HSET', meta, 'seq', string.format('%.0f', next_seq))
redis.call('HSET', attempts, unpack(lines))
redis.call('ZADD', ready, unpack(arrivals))
for place, ids in pairs(leaves) do
  if #ids > 0 then redis.call('ZREM', places[place], unpack(ids)) end
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
note('HINCRBY', meta, 'requeued', #arrivals / 2)
note('ZADD', wake, 0, 'wake')
if watch == 'on' or (tonumber(watch) or 0) > now_ms then
  for i = 2, #arrivals, 2 do note('XADD', events, 'MAXLEN', '~', 10000, '*', 'verb', 'requeue', 'id', arrivals[i]) end
end
return words
