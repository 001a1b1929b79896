-- Revert jobs to what they were before a verb moved or changed them, where nothing changed them since.
--
-- A job that was reserved comes back to ready, at its old position: its lease is over. What was deleted comes back by `restore`.
--
-- moves    scheduled ready dead -> scheduled | ready | done | dead
-- writes   attempts errors meta events minutes wake
-- KEYS     scheduled  zset    id by due (ms)
--          ready      zset    id by priority, then arrival
--          reserved   zset    id by lease deadline (ms)
--          done       zset    id by forget-at (ms)
--          dead       zset    id by died-at (ms)
--          attempts   hash    what changes, by id
--          errors     hash    failed attempts by id
--          meta       hash    settings and counters
--          events     stream  what happened, while watched
--          minutes    stream  counters per minute
--          wake       zset    the marker that blocked consumers wait on
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          each      (id bytes, left str, known? bytes, place str, score str, line? bytes, errors? bytes)
-- returns each  moved    (place str)  reverted
--               changed  (place str)  it changed since
--               gone     no such job
local scheduled, ready, reserved, done, dead, attempts, errors, meta, events, minutes, wake =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11]
local version, watch, last_minute = unpack(redis.call('HMGET', meta, 'version', 'events', 'minute'))
for _, key in ipairs({scheduled, ready, reserved, done, dead, wake}) do redis.call('ZCARD', key) end
for _, key in ipairs({attempts, errors}) do redis.call('HLEN', key) end
for _, key in ipairs({events, minutes}) do redis.call('XLEN', key) end
-- block: opening, place_of
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
-- end
if #ARGV < 8 or #ARGV > 7001 or #ARGV % 7 ~= 1 then
  return redis.error_reply('ERR a batch has 1 to 1000 rows of 7 columns; nothing was changed')
end
if #ARGV[1] > 13 or string.find(ARGV[1], '%D') then return redis.error_reply('ERR now_ms is a whole number; nothing was changed') end
local words, back, seen = {}, {}, {}
for at = 2, #ARGV, 7 do
  local id, left, place, score, line = ARGV[at], ARGV[at + 1], ARGV[at + 3], tonumber(ARGV[at + 4]), ARGV[at + 5]
  local tried, position, rest = string.match(line, '^(%d+) %S+ (%S+) %S+ (%S+ %S .*)$')
  local what = (left ~= 'scheduled' and left ~= 'ready' and left ~= 'dead') and 'a verb leaves jobs in scheduled, ready or dead'
    or not places[place] and 'the place is scheduled, ready, reserved, done or dead'
    or not (score and score == score and math.abs(score) < 2 ^ 53) and 'the score is a number below 2^53'
    or line ~= '' and not tried and 'the line of attempts is not one'
    or place == 'reserved' and not tonumber(position or '') and 'a reserved job has a line of attempts'
  if what then return redis.error_reply('ERR row ' .. (at + 5) / 7 .. ': ' .. what .. '; nothing was changed') end
  local now = place_of(id)
  if not now then
    words[#words + 1] = 'gone'
  elseif now ~= left or seen[id] or (redis.call('HGET', attempts, id) or '') ~= ARGV[at + 2] then
    words[#words + 1] = {'changed', now}
  else
    local row = {id = id, left = left, place = place, score = ARGV[at + 4], line = line, errors = ARGV[at + 6]}
    if place == 'reserved' then
      row.place, row.score, row.line = 'ready', position, table.concat({tried, '-', position, now_ms, rest}, ' ')
    end
    words[#words + 1], back[#back + 1], seen[id] = {'moved', row.place}, row, true
  end
end
if #back == 0 then return words end

redis.call('ZREM', dead, '') -- frees nothing: a drain may go on over maxmemory
local woken = false
for _, row in ipairs(back) do
  for key, value in pairs({[attempts] = row.line, [errors] = row.errors}) do
    if value == '' then redis.call('HDEL', key, row.id) else redis.call('HSET', key, row.id, value) end
  end
  redis.call('ZADD', places[row.place], row.score, row.id)
  if row.place ~= row.left then redis.call('ZREM', places[row.left], row.id) end
  woken = woken or row.place == 'ready' or row.place == 'scheduled'
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
note('HINCRBY', meta, 'reverted', #back)
if woken then note('ZADD', wake, 0, 'wake') end
if watch == 'on' or (tonumber(watch) or 0) > now_ms then
  for _, row in ipairs(back) do note('XADD', events, 'MAXLEN', '~', 10000, '*', 'verb', 'revert', 'id', row.id) end
end
return words
