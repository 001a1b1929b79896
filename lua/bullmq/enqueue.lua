-- Enqueue new jobs, now or later. If the id exists, that job stays unchanged.
--
-- A job without an id gets the next number, as in BullMQ. `body` is its data and `opts` its options. Both are JSON and stored unchanged,
-- but the options that have a column are written before the others. Jobs with a priority from 1 on run after those without one, the
-- lowest number first. This script neither deduplicates nor updates a parent; the application must do that.
--
-- moves    -> wait | paused | prioritized | delayed
-- writes   meta id pc marker events
-- derived  <prefix>:<queue>:<id>
-- KEYS     delayed prioritized wait paused active meta id pc marker events
-- ARGV     p            str   prefix of all keys of the queue: bull:mail:
--          now_ms?      int   a test's clock; the server's when empty
--          each         (id? bytes, body bytes, name? bytes, delay_ms? int, due_ms? int, priority? int, max_attempts? int,
--                        keep_ms? int, lifo? bool, opts? bytes)
-- returns each  moved   (id bytes)  enqueued
--               exists  (id bytes)  a job with this id exists; nothing was changed
-- include: keys(delayed prioritized wait paused active meta pc marker events), columns, batch, clock_argv2
-- include: this_queue, key_types(delayed), add_event, add_ready, add_delayed, wake_when_due
if redis.call('GET', KEYS[7]) and not string.find(redis.call('GET', KEYS[7]), '^%d+$') then
  return redis.error_reply('ERR the key of the last number holds no number: another program uses this name; nothing was changed')
end
local OWN_NAMES = {wait = 1, paused = 1, active = 1, prioritized = 1, delayed = 1, completed = 1, failed = 1, meta = 1, id = 1, pc = 1,
  marker = 1, events = 1, limiter = 1, stalled = 1, ['stalled-check'] = 1, ['waiting-children'] = 1, ['repeat'] = 1}
local names = {[3] = 'delay_ms', [4] = 'due_ms', [5] = 'priority', [6] = 'max_attempts', [7] = 'keep_ms'}
local function find_fault(at) -- a sentence about the row that begins at this argument; nil if the row is valid
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
  local object = opts == '' and '{}' or opts
  if not pcall(cjson.decode, object) or not string.find(object, '^%s*{') then return 'opts are a JSON object' end
end
for at = 3, #ARGV, columns do
  local fault = find_fault(at)
  if fault then return redis.error_reply('ERR job ' .. (at + 7) / columns .. ' of the batch: ' .. fault .. '; nothing was changed') end
end
local function whole(number) return string.format('%.0f', number) end
local function options(at, delay_ms) -- the columns come first, so that a field of `opts` overrides them
  local options_of, opts = {}, string.match(ARGV[at + 9], '^%s*{%s*(.-)%s*}%s*$') or ''
  local function add_option(name, value)
    if value then options_of[#options_of + 1] = '"' .. name .. '":' .. value end
  end
  add_option('delay', delay_ms > 0 and whole(delay_ms))
  add_option('priority', ARGV[at + 5] ~= '' and whole(tonumber(ARGV[at + 5])))
  add_option('attempts', ARGV[at + 6] ~= '' and whole(tonumber(ARGV[at + 6])))
  add_option('removeOnComplete', ARGV[at + 7] ~= '' and '{"age":' .. whole(math.ceil(tonumber(ARGV[at + 7]) / 1000)) .. '}')
  add_option('lifo', ARGV[at + 8] == '1' and 'true')
  if opts ~= '' then options_of[#options_of + 1] = opts end
  return '{' .. table.concat(options_of, ',') .. '}'
end

local replies, is_named = {}, false
for at = 3, #ARGV, columns do
  local id, name = ARGV[at], ARGV[at + 2] == '' and '__default__' or ARGV[at + 2]
  local is_taken = id ~= '' and redis.call('EXISTS', p .. id) == 1
  if not is_taken then
    -- rqtui and programs of BullMQ find a queue by this field, which a Queue writes when it connects.
    if not is_named then redis.call('HSETNX', meta, 'opts.maxLenEvents', '10000') end
    is_named = true
    local number
    repeat number = whole(redis.call('INCR', KEYS[7])) until id ~= '' or redis.call('EXISTS', p .. number) == 0
    if id == '' then id = number end
  end
  if is_taken then
    replies[#replies + 1] = {'exists', id}
  else
    local given = tonumber(ARGV[at + 3]) or tonumber(ARGV[at + 4]) and tonumber(ARGV[at + 4]) - now_ms
    local delay_ms, priority = math.max(0, given or 0), tonumber(ARGV[at + 5]) or 0
    redis.call(
      'HSET', p .. id, 'name', name, 'data', ARGV[at + 1], 'opts', options(at, delay_ms), 'timestamp', whole(now_ms),
      'delay', whole(delay_ms), 'priority', whole(priority)
    )
    add_event(queue, 'added', 'jobId', id, 'name', name)
    if delay_ms > 0 then
      add_delayed(id, now_ms + delay_ms)
      wake_when_due()
      add_event(queue, 'delayed', 'jobId', id, 'delay', whole(now_ms + delay_ms))
    else
      add_ready(queue, id, priority, ARGV[at + 8] == '1' and priority == 0)
      add_event(queue, 'waiting', 'jobId', id)
    end
    replies[#replies + 1] = {'moved', id}
  end
end
return replies
