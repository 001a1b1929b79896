-- Kill live jobs: move them to dead with a reason, so that nobody runs them until they are requeued.
--
-- A reserved job needs force; with a token, only the lease that has it is ended; its worker's later answer is then `stale`.
--
-- moves    scheduled ready reserved -> dead
-- forgets  dead
-- writes   jobs bodies attempts errors meta events minutes
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
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          place?    str     only if it is still there; anywhere when empty
--          reason?   bytes   why
--          force?    bool    even when a worker holds it
--          each      (id bytes, token? str)
-- returns each  moved        killed
--               reserved     a worker holds it; force it, or cancel it
--               stale        another lease holds it now
--               wrong_place  (place str)  it is somewhere else
--               gone         no such job
local scheduled, ready, reserved, done, dead, jobs, bodies, attempts, errors, meta, events, minutes =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local place, reason, force = ARGV[2], ARGV[3], ARGV[4] == '1'
local version, dead_max, dead_ttl, watch, last_minute =
  unpack(redis.call('HMGET', meta, 'version', 'dead_max', 'dead_ttl_ms', 'events', 'minute'))
for _, key in ipairs({scheduled, ready, reserved, done, dead}) do redis.call('ZCARD', key) end
for _, key in ipairs({jobs, bodies, attempts, errors}) do redis.call('HLEN', key) end
for _, key in ipairs({events, minutes}) do redis.call('XLEN', key) end
-- block: opening, place_of, failed
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
local function failed(id, start, worker, why) -- the history of a job with one more failure
  local ok, list = pcall(cjson.decode, redis.call('HGET', errors, id) or '[]')
  if not ok or type(list) ~= 'table' or #list == 0 then list = {} end -- also one that is no list
  list[#list + 1] = {start, now_ms, worker, string.sub(why, 1, 2000)}
  if #list > 10 then table.remove(list, 1) end
  return cjson.encode(list)
end
-- end
if #ARGV < 6 or #ARGV > 2004 or #ARGV % 2 == 1 then
  return redis.error_reply('ERR a batch has 1 to 1000 rows of id and token; nothing was changed')
end
if #ARGV[1] > 13 or string.find(ARGV[1], '%D') then return redis.error_reply('ERR now_ms is a whole number; nothing was changed') end
local words, deaths, lines, reasons, seen = {}, {}, {}, {}, {}
local leaves = {scheduled = {}, ready = {}, reserved = {}}
for at = 5, #ARGV, 2 do
  local id = ARGV[at]
  local from = seen[id] or place_of(id)
  local tried, token, score, began, priority, _, worker =
    string.match(redis.call('HGET', attempts, id) or '', '^(%d+) (%S+) (%S+) (%S+) (%S+) (%S) (.*)$')
  local held = from == 'reserved'
  if not from then
    words[#words + 1] = 'gone'
  elseif not leaves[from] or (place ~= '' and place ~= from) then
    words[#words + 1] = {'wrong_place', from}
  elseif held and ARGV[at + 1] ~= '' and ARGV[at + 1] ~= token then
    words[#words + 1] = 'stale'
  elseif held and not force then
    words[#words + 1] = 'reserved'
  else
    words[#words + 1], seen[id] = 'moved', 'dead'
    deaths[#deaths + 1], deaths[#deaths + 2] = now_ms, id
    if tried then lines[#lines + 1], lines[#lines + 2] = id, table.concat({tried, '-', score, now_ms, priority, '-', worker}, ' ') end
    reasons[#reasons + 1], reasons[#reasons + 2] =
      id, failed(id, held and tonumber(began) or now_ms, held and worker or '', reason == '' and 'killed' or reason)
    table.insert(leaves[from], id)
  end
end
if #deaths == 0 then return words end

redis.call('ZREM', reserved, '') -- frees nothing: a drain may go on over maxmemory
redis.call('HSET', errors, unpack(reasons))
if #lines > 0 then redis.call('HSET', attempts, unpack(lines)) end
redis.call('ZADD', dead, unpack(deaths))
for from, ids in pairs(leaves) do
  if #ids > 0 then redis.call('ZREM', places[from], unpack(ids)) end
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
note('HINCRBY', meta, 'killed', #deaths / 2)
note('HINCRBY', meta, 'dead', #deaths / 2)
pcall(forget, dead, now_ms - (tonumber(dead_ttl) or 2592000000), (tonumber(dead_max) or 100000), 10 + #deaths)
if watch == 'on' or (tonumber(watch) or 0) > now_ms then
  for i = 2, #deaths, 2 do note('XADD', events, 'MAXLEN', '~', 10000, '*', 'verb', 'kill', 'id', deaths[i]) end
end
return words
