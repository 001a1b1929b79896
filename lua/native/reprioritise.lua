-- Reprioritise scheduled or ready jobs; inside the new priority they keep the order in which they arrived.
--
-- writes   ready attempts meta events minutes
-- KEYS     scheduled  zset    id by due (ms)
--          ready      zset    id by priority, then arrival
--          reserved   zset    id by lease deadline (ms)
--          done       zset    id by forget-at (ms)
--          dead       zset    id by died-at (ms)
--          jobs       hash    header and body by id
--          attempts   hash    what changes, by id
--          meta       hash    settings and counters
--          events     stream  what happened, while watched
--          minutes    stream  counters per minute
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          priority  int     -4096 to 4095, lower first
--          each      (id bytes)
-- returns each  changed      reprioritised
--               wrong_place  (place str)  it is neither scheduled nor ready
--               gone         no such job
local scheduled, ready, reserved, done, dead, jobs, attempts, meta, events, minutes =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local priority = tonumber(ARGV[2])
local version, watch, last_minute = unpack(redis.call('HMGET', meta, 'version', 'events', 'minute'))
for _, key in ipairs({scheduled, ready, reserved, done, dead}) do redis.call('ZCARD', key) end
for _, key in ipairs({jobs, attempts}) do redis.call('HLEN', key) end
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
if #ARGV < 3 or #ARGV > 1002 then return redis.error_reply('ERR a batch has 1 to 1000 ids; nothing was changed') end
if #ARGV[1] > 13 or string.find(ARGV[1], '%D') then return redis.error_reply('ERR now_ms is a whole number; nothing was changed') end
if not string.match(ARGV[2], '^%-?%d+$') or priority < -4096 or priority > 4095 then
  return redis.error_reply('ERR priority is a whole number from -4096 to 4095; nothing was changed')
end
local words, scores, lines, changed = {}, {}, {}, {}
for at = 3, #ARGV do
  local id = ARGV[at]
  local place = place_of(id)
  if place ~= 'scheduled' and place ~= 'ready' then
    words[#words + 1] = place and {'wrong_place', place} or 'gone'
  else
    words[#words + 1], changed[#changed + 1] = 'changed', id
    local tried, token, score, at_ms, rest = string.match(redis.call('HGET', attempts, id) or '', '^(%d+) (%S+) (%S+) (%S+) %S+ (.*)$')
    if place == 'ready' then
      local sequence = redis.call('ZSCORE', ready, id) % 2 ^ 40
      if sequence ~= sequence then sequence = 0 end -- of an infinite score, which somebody else wrote
      score = string.format('%.0f', priority * 2 ^ 40 + sequence)
      scores[#scores + 1], scores[#scores + 2] = score, id
    end
    if not tried then
      local enqueued, due = string.match(redis.call('HGET', jobs, id) or '', '^(%d+) ?(%d*)')
      tried, token, at_ms, rest = 0, '-', math.max(tonumber(enqueued or 0), tonumber(due or '') or 0), '- '
    end
    lines[#lines + 1], lines[#lines + 2] = id, table.concat({tried, token, score or 0, at_ms, priority, rest}, ' ')
  end
end
if #changed == 0 then return words end

redis.call('ZREM', ready, '') -- frees nothing: a drain may go on over maxmemory
redis.call('HSET', attempts, unpack(lines))
if #scores > 0 then redis.call('ZADD', ready, unpack(scores)) end

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
note('HINCRBY', meta, 'reprioritised', #changed)
if watch == 'on' or (tonumber(watch) or 0) > now_ms then
  for _, id in ipairs(changed) do note('XADD', events, 'MAXLEN', '~', 10000, '*', 'verb', 'reprioritise', 'id', id) end
end
return words
