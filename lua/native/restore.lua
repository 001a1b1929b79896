-- Restore what `delete` returned, where the id is free.
--
-- A job that was reserved comes back to ready, at its old position: its lease is over.
--
-- moves    -> scheduled | ready | done | dead
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
--          each      (id bytes, place str, score str, record bytes, body? bytes, line? bytes, errors? bytes)
-- returns each  moved   (place str)  restored
--               exists  the id is taken
local scheduled, ready, reserved, done, dead, jobs, bodies, attempts, errors, meta, events, minutes, wake =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[13]
local version, watch, last_minute = unpack(redis.call('HMGET', meta, 'version', 'events', 'minute'))
for _, key in ipairs({scheduled, ready, reserved, done, dead, wake}) do redis.call('ZCARD', key) end
for _, key in ipairs({jobs, bodies, attempts, errors}) do redis.call('HLEN', key) end
for _, key in ipairs({events, minutes}) do redis.call('XLEN', key) end
-- block: opening, place_of, header
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
if version and version ~= '2' and version ~= '1' then
  return redis.error_reply('ERR this queue has schema version ' .. version .. ', these scripts speak 1 and 2; nothing was changed')
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
if #ARGV < 8 or #ARGV > 7001 or #ARGV % 7 ~= 1 then
  return redis.error_reply('ERR a batch has 1 to 1000 rows of 7 columns; nothing was changed')
end
if #ARGV[1] > 13 or string.find(ARGV[1], '%D') then return redis.error_reply('ERR now_ms is a whole number; nothing was changed') end
for at = 2, #ARGV, 7 do
  local id, place, score, record, line = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]), ARGV[at + 3], ARGV[at + 5]
  local what = (#id < 1 or #id > 512) and 'an id has 1 to 512 bytes'
    or not places[place] and 'the place is scheduled, ready, reserved, done or dead'
    or not (score and math.abs(score) < 2 ^ 53 and string.find(ARGV[at + 2], '^[%d.e+-]+$')) and 'the score is a number below 2^53'
    or place ~= 'done' and not header(record) and 'the record is not one'
    or line ~= '' and not string.match(line, '^%d+ %S+ %S+ %S+ %S+ %S .*$') and 'the line of attempts is not one'
    or place == 'reserved' and not tonumber(string.match(line, '^%d+ %S+ (%S+) ') or '') and 'a reserved job has a line of attempts'
  if what then return redis.error_reply('ERR row ' .. (at + 5) / 7 .. ': ' .. what .. '; nothing was changed') end
end

local words, restored, woken = {}, 0, false
for at = 2, #ARGV, 7 do
  local id, place, score, record, line = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 5]
  if redis.call('HEXISTS', jobs, id) == 1 or place_of(id) then
    words[#words + 1] = 'exists'
  else
    if place == 'reserved' then
      local tried, position, rest = string.match(line, '^(%d+) %S+ (%S+) %S+ (.*)$')
      place, score, line = 'ready', position, table.concat({tried, '-', position, now_ms, rest}, ' ')
    end
    words[#words + 1], restored, woken = {'moved', place}, restored + 1, woken or place == 'ready' or place == 'scheduled'
    if restored == 1 then redis.call('HSET', meta, 'version', '2') end -- its header may be a short one
    if record ~= '' then redis.call('HSET', jobs, id, record) end
    for column, key in pairs({[4] = bodies, [6] = errors}) do
      if ARGV[at + column] ~= '' then redis.call('HSET', key, id, ARGV[at + column]) end
    end
    if line ~= '' then redis.call('HSET', attempts, id, line) end
    redis.call('ZADD', places[place], score, id)
  end
end
if restored == 0 then return words end

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
note('HINCRBY', meta, 'restored', restored)
if woken then note('ZADD', wake, 0, 'wake') end
if watch == 'on' or (tonumber(watch) or 0) > now_ms then
  for row, word in ipairs(words) do
    if word ~= 'exists' then note('XADD', events, 'MAXLEN', '~', 10000, '*', 'verb', 'restore', 'id', ARGV[row * 7 - 5]) end
  end
end
return words
