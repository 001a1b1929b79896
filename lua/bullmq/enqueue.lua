-- Enqueue new jobs, now or later; an id that is taken is left as it is.
--
-- A job without an id gets the next number, as BullMQ gives it. `body` is its data, `opts` its options: JSON both, stored as they are
-- but for the options that stand in columns, which are written before the others. Jobs with a priority, from 1 on, come after those
-- without, lower first. Nothing here deduplicates, and no parent is told: that is for the application.
--
-- moves    -> wait | paused | prioritized | delayed
-- writes   meta id pc marker events
-- derived  <prefix>:<queue>:<id>
-- KEYS     delayed      zset    id by due (ms × 4096)
--          prioritized  zset    id by priority × 2^32, then arrival
--          wait         list    ids, the next one last
--          paused       list    ids while BullMQ 5 is paused, the next one last
--          active       list    ids that run, the oldest run last
--          meta         hash    version, paused, limits
--          id           string  the last number given to a job
--          pc           string  the last number of a job with a priority
--          marker       zset    what workers wait for: there is work, or when there will be
--          events       stream  what happened
-- ARGV     p            str   before all keys of the queue: bull:mail:
--          now_ms?      int   a test's clock; the server's when empty
--          each         (id? bytes, body bytes, name? bytes, delay_ms? int, due_ms? int, priority? int, max_attempts? int,
--                        keep_ms? int, lifo? bool, opts? bytes)
-- returns each  moved   (id bytes)  enqueued
--               exists  (id bytes)  a job of that id is there; nothing was changed
local delayed, prioritized, wait, paused, active, meta = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local pc, marker, events = KEYS[8], KEYS[9], KEYS[10]
local scalars, columns = 2, 10
-- block: bm_batch, bm_clock, bm_door, bm_tell, bm_wake, bm_push, bm_later, bm_alarm
local rows, p = (#ARGV - scalars) / columns, ARGV[1]
if rows < 1 or rows > 1000 or rows ~= math.floor(rows) or p == '' or string.sub(KEYS[1], 1, #p) ~= p then
  return redis.error_reply('ERR it takes what the keys begin with, and 1 to 1000 rows, each with all of its columns; nothing was changed')
end
if #ARGV[2] > 13 or string.find(ARGV[2], '%D') then
  return redis.error_reply('ERR now_ms is a whole number; nothing was changed')
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[2]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local doors = {}
local function door(q, keys) -- read before the first write, so that another program's key is an error
  if doors[q] then return doors[q] end
  if not keys then
    keys = {}
    for _, name in ipairs({'wait', 'paused', 'prioritized', 'active', 'meta', 'pc', 'marker', 'events'}) do keys[name] = q .. name end
  end
  local told = redis.call('HMGET', keys.meta, 'paused', 'concurrency', 'version', 'opts.maxLenEvents')
  local aside = redis.call('LLEN', keys.paused)
  redis.call('LLEN', keys.wait)
  redis.call('ZCARD', keys.prioritized)
  redis.call('ZCARD', keys.marker)
  redis.call('GET', keys.pc)
  redis.call('XLEN', keys.events)
  -- BullMQ 5 keeps what waits in `paused` while the queue is paused, and takes `wait` away when it is resumed. Both versions empty
  -- `paused` then, so that it is safe for who tells no version.
  local is_old = (tonumber(string.match(told[3] or '', '^bullmq:(%d+)') or '') or 5) < 6
  local is_aside = told[1] and (is_old or aside > 0)
  doors[q] = {
    keys = keys, is_paused = told[1] and true or false, most = tonumber(told[2] or ''), running = redis.call('LLEN', keys.active),
    list = is_aside and keys.paused or keys.wait, place = is_aside and 'paused' or 'wait', is_old = is_old, length = tonumber(told[4] or '') or 10000,
  }
  return doors[q]
end
local function tell(to, event, ...) -- a verb is not refused for an event that cannot be told
  redis.pcall('XADD', to.keys.events, 'MAXLEN', '~', string.format('%.0f', to.length), '*', 'event', event, ...)
end
local function is_held(to) return to.is_paused or to.most ~= nil and to.running >= to.most end
local function wake(to) -- without a marker workers sleep on for seconds
  if not is_held(to) then redis.call('ZADD', to.keys.marker, 0, '0') end
end
local function push(to, id, rank, at_front)
  if rank > 0 then
    local count = at_front and 0 or redis.call('INCR', to.keys.pc) % 4294967296
    redis.call('ZADD', to.keys.prioritized, string.format('%.0f', rank * 4294967296 + count), id)
  elseif at_front then
    redis.call('RPUSH', to.list, id)
  else
    redis.call('LPUSH', to.list, id)
  end
  wake(to)
end
local function later(id, time_ms) -- of those that are due in one millisecond the last comes last
  local first = time_ms * 4096
  local last = redis.call(
    'ZREVRANGEBYSCORE', delayed, string.format('%.0f', first + 4095), string.format('%.0f', first), 'WITHSCORES', 'LIMIT', 0, 1
  )[2]
  redis.call('ZADD', delayed, string.format('%.0f', last and math.min(tonumber(last) + 1, first + 4095) or first), id)
end
local function alarm() -- workers sleep until the first is due
  local score = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2]
  if score then redis.call('ZADD', marker, string.format('%.0f', math.floor(tonumber(score) / 4096)), '1') end
end
-- end
local own = door(p, {wait = wait, paused = paused, prioritized = prioritized, active = active, meta = meta, pc = pc, marker = marker, events = events})
redis.call('ZCARD', delayed)
if redis.call('GET', KEYS[7]) and not string.find(redis.call('GET', KEYS[7]), '^%d+$') then
  return redis.error_reply('ERR the key of the last number holds no number: another program uses this name; nothing was changed')
end
local OWN_NAMES = {wait = 1, paused = 1, active = 1, prioritized = 1, delayed = 1, completed = 1, failed = 1, meta = 1, id = 1, pc = 1,
  marker = 1, events = 1, limiter = 1, stalled = 1, ['stalled-check'] = 1, ['waiting-children'] = 1, ['repeat'] = 1}
local names = {[3] = 'delay_ms', [4] = 'due_ms', [5] = 'priority', [6] = 'max_attempts', [7] = 'keep_ms'}
local function fault(at) -- what is wrong with the row that begins there
  local id, opts = ARGV[at], ARGV[at + 9]
  if #id > 200 or string.find(id, ':', 1, true) or string.find(id, '^%d+$') or OWN_NAMES[id] then
    return 'an id of yours has up to 200 bytes without ":", is no number and no name of a key of BullMQ'
  end
  if ARGV[at + 1] == '' then return 'data is JSON, and is not empty' end
  for column, name in pairs(names) do
    local text = ARGV[at + column]
    if #text > 13 or string.find(text, '%D') then return name .. ' is a whole number' end
  end
  if tonumber(ARGV[at + 5] or '') and tonumber(ARGV[at + 5]) > 2097151 then return 'a priority is 0 to 2097151' end
  if ARGV[at + 6] == '0' then return 'max_attempts is 1 or more' end
  local is_json, value = pcall(cjson.decode, opts == '' and '{}' or opts)
  if not is_json or type(value) ~= 'table' or not string.find(opts == '' and '{}' or opts, '^%s*{') then return 'opts are a JSON object' end
end
for at = 3, #ARGV, columns do
  local wrong = fault(at)
  if wrong then return redis.error_reply('ERR job ' .. (at + 7) / columns .. ' of the batch: ' .. wrong .. '; nothing was changed') end
end
local function whole(number) return string.format('%.0f', number) end
local function options(at, delay_ms) -- what stands in columns goes before what a person wrote, which wins where both say it
  local told, opts = {}, string.match(ARGV[at + 9], '^%s*{%s*(.-)%s*}%s*$') or ''
  local function say(name, value)
    if value then told[#told + 1] = '"' .. name .. '":' .. value end
  end
  say('delay', delay_ms > 0 and whole(delay_ms))
  say('priority', ARGV[at + 5] ~= '' and whole(tonumber(ARGV[at + 5])))
  say('attempts', ARGV[at + 6] ~= '' and whole(tonumber(ARGV[at + 6])))
  say('removeOnComplete', ARGV[at + 7] ~= '' and '{"age":' .. whole(math.ceil(tonumber(ARGV[at + 7]) / 1000)) .. '}')
  say('lifo', ARGV[at + 8] == '1' and 'true')
  if opts ~= '' then told[#told + 1] = opts end
  return '{' .. table.concat(told, ',') .. '}'
end

local words, is_named = {}, false
for at = 3, #ARGV, columns do
  local id, name = ARGV[at], ARGV[at + 2] == '' and '__default__' or ARGV[at + 2]
  local is_taken = id ~= '' and redis.call('EXISTS', p .. id) == 1
  if not is_taken then
    -- A queue is found by this field, by programs of BullMQ, too; theirs write it as they connect.
    if not is_named then redis.call('HSETNX', meta, 'opts.maxLenEvents', '10000') end
    is_named = true
    local number
    repeat number = whole(redis.call('INCR', KEYS[7])) until id ~= '' or redis.call('EXISTS', p .. number) == 0
    if id == '' then id = number end
  end
  if is_taken then
    words[#words + 1] = {'exists', id}
  else
    local given = tonumber(ARGV[at + 3]) or tonumber(ARGV[at + 4]) and tonumber(ARGV[at + 4]) - now_ms
    local delay_ms, priority = math.max(0, given or 0), tonumber(ARGV[at + 5]) or 0
    redis.call(
      'HSET', p .. id, 'name', name, 'data', ARGV[at + 1], 'opts', options(at, delay_ms), 'timestamp', whole(now_ms),
      'delay', whole(delay_ms), 'priority', whole(priority)
    )
    tell(own, 'added', 'jobId', id, 'name', name)
    if delay_ms > 0 then
      later(id, now_ms + delay_ms)
      alarm()
      tell(own, 'delayed', 'jobId', id, 'delay', whole(now_ms + delay_ms))
    else
      push(own, id, priority, ARGV[at + 8] == '1' and priority == 0)
      tell(own, 'waiting', 'jobId', id)
    end
    words[#words + 1] = {'moved', id}
  end
end
return words
