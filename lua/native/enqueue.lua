-- Enqueue new jobs.
--
-- An id that the queue knows, in whatever state, is left as it is, so a call may be sent again. One bad argument
-- refuses the whole batch. A body above 4096 bytes stands in `bodies`, where no move ever copies it.
--
-- moves    -> ready | scheduled
-- forgets  done
-- writes   jobs bodies attempts errors meta events minutes wake
-- KEYS     scheduled  zset    id by due (ms)
--          ready      zset    id by priority, then arrival
--          done       zset    id by forget-at (ms)
--          jobs       hash    header and body by id
--          bodies     hash    long bodies by id
--          attempts   hash    what changes, by id
--          errors     hash    failed attempts by id
--          meta       hash    settings and counters
--          events     stream  what happened, while watched
--          minutes    stream  counters per minute
--          wake       zset    the marker that blocked consumers wait on
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          columns?  int     how many of a row's columns are sent, from the left; all when empty, the others are empty
--          each      (id bytes, body bytes, name? str, delay_ms? int, due_ms? int, priority? int, ttr_ms? int,
--                     max_attempts? int, backoff_ms? int, backoff_cap_ms? int, keep_ms? int)
-- returns each  moved   enqueued
--               exists  the queue knows this id already
local scheduled, ready, done, jobs, bodies, attempts, errors, meta, events, minutes, wake =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11]
local version, seq, watch, last_minute = unpack(redis.call('HMGET', meta, 'version', 'seq', 'events', 'minute'))
local remembered, is_woken = redis.call('ZCARD', done), redis.call('ZCARD', wake) > 0
-- block: opening, sequence, noting
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
if tonumber(version or 1) ~= 1 then
  return redis.error_reply('ERR this queue has schema version ' .. version .. ', these scripts speak 1; nothing was changed')
end
if seq and not string.match(seq, '^%d+$') then
  return redis.error_reply('ERR the field seq of ' .. meta .. ' is not a number; nothing was changed')
end
if watch == 'on' or (tonumber(watch) or 0) > now_ms then redis.call('XLEN', events) end
if now_ms - now_ms % 60000 > (tonumber(last_minute) or 0) then redis.call('XLEN', minutes) end
-- end
if #ARGV < 2 or #ARGV[1] > 13 or string.find(ARGV[1], '%D') then
  return redis.error_reply('ERR now_ms is a whole number; nothing was changed')
end
local columns = tonumber(ARGV[2]) or 11
if string.find(ARGV[2], '%D') or columns < 2 or columns > 11 then
  return redis.error_reply('ERR columns is a whole number from 2 to 11; nothing was changed')
end
local count = (#ARGV - 2) / columns
if count < 1 or count > 1000 or count ~= math.floor(count) then
  return redis.error_reply('ERR a batch has 1 to 1000 jobs of ' .. columns .. ' columns; nothing was changed')
end
local function given(at, column) -- of the row that begins there
  return column < columns and ARGV[at + column] or ''
end
local function fault(at) -- what is wrong with the options of the row that begins there
  local year = 31622400000
  local bounds = { -- column, name, lowest, highest
    {3, 'delay_ms', 0, 100 * year}, {4, 'due_ms', 0, 9007199254740}, {5, 'priority', -4096, 4095}, {6, 'ttr_ms', 1, year},
    {7, 'max_attempts', 1, 1000000}, {8, 'backoff_ms', 0, year}, {9, 'backoff_cap_ms', 0, year}, {10, 'keep_ms', 0, 100 * year},
  }
  for _, bound in ipairs(bounds) do
    local text = given(at, bound[1])
    local number = string.match(text, '^%-?%d+$') and tonumber(text)
    if text ~= '' and not (number and number >= bound[3] and number <= bound[4]) then
      return bound[2] .. ' is a whole number from ' .. bound[3] .. ' to ' .. string.format('%d', bound[4])
    end
  end
end

local plain = string.format('%d - 0 - - - - - - ', now_ms) -- the header of a job without options, which most are
local options, soonest, delayed, is_long = {}, math.huge, 0, false
for row = 1, count do
  local at, has_options = 3 + (row - 1) * columns, false
  local id, length, name = ARGV[at], #ARGV[at + 1], given(at, 2)
  for column = 3, columns - 1 do has_options = has_options or ARGV[at + column] ~= '' end
  local wrong = (#id < 1 or #id > 512) and 'an id has 1 to 512 bytes, not ' .. #id
    or (#name > 200 or string.find(name, '%c')) and 'a name has up to 200 bytes and no control characters'
    or has_options and fault(at)
  if wrong then return redis.error_reply('ERR job ' .. row .. ' of the batch: ' .. wrong .. '; nothing was changed') end
  is_long = is_long or length > 4096
  if has_options or length > 4096 then
    local delay_ms, priority = tonumber(given(at, 3)), tonumber(given(at, 5)) or 0
    local due = delay_ms and now_ms + delay_ms or tonumber(given(at, 4))
    local header = {string.format('%d', now_ms), due and string.format('%d', due) or '-', priority}
    for column = 6, 10 do
      local text = given(at, column)
      header[column - 2] = text == '' and '-' or text
    end
    header = table.concat(header, ' ') .. ' ' .. (length > 4096 and length or '-') .. ' '
    local is_delayed = due and due > now_ms
    if is_delayed then delayed = delayed + 1 end
    options[row] = {header = header, priority = priority, due = is_delayed and string.format('%d', due)}
  end
end
local head = delayed > 0 and redis.call('ZRANGE', scheduled, '0', '0', 'WITHSCORES') or {}
if delayed < count then redis.call('ZCARD', ready) end
if is_long or remembered > 0 then redis.call('HLEN', bodies) end
if remembered > 0 then
  redis.call('HLEN', attempts)
  redis.call('HLEN', errors)
end

local words, new, long, to_ready, to_scheduled, stale, is_stale = {}, {}, {}, {}, {}, {}, {}
local next_seq = tonumber(seq) or 0
for row = 1, count do
  local at, option = 3 + (row - 1) * columns, options[row]
  local id, body = ARGV[at], ARGV[at + 1]
  local record = (option and option.header or plain) .. given(at, 2) .. '\n' .. (#body > 4096 and '' or body)
  local forget_at = remembered > 0 and tonumber(redis.call('ZSCORE', done, id) or nil)
  local is_new
  if forget_at and forget_at <= now_ms and not is_stale[id] then -- its time is over: what is left of it gives way
    is_new, is_stale[id], stale[#stale + 1] = true, true, id
    redis.call('HSET', jobs, id, record)
  else
    is_new = not forget_at and redis.call('HSETNX', jobs, id, record) == 1
  end
  words[row] = is_new and 'moved' or 'exists'
  if is_new then
    new[#new + 1] = id
    if #body > 4096 then long[#long + 1], long[#long + 2] = id, body end
    if option and option.due then
      soonest = math.min(soonest, tonumber(option.due))
      to_scheduled[#to_scheduled + 1], to_scheduled[#to_scheduled + 2] = option.due, id
    else
      next_seq = next_seq + 1
      to_ready[#to_ready + 1], to_ready[#to_ready + 2] =
        string.format('%d', (option and option.priority or 0) * 2 ^ 40 + next_seq), id
    end
  end
end
if #new == 0 then return words end

if #stale > 0 then
  for _, key in ipairs({bodies, attempts, errors}) do redis.call('HDEL', key, unpack(stale)) end
end
if #long > 0 then redis.call('HSET', bodies, unpack(long)) end
redis.call('HSET', meta, 'version', '1', 'seq', string.format('%d', next_seq))
if #to_ready > 0 then redis.call('ZADD', ready, unpack(to_ready)) end
if #to_scheduled > 0 then redis.call('ZADD', scheduled, unpack(to_scheduled)) end
if #stale > 0 then redis.call('ZREM', done, unpack(stale)) end

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
note('HINCRBY', meta, 'enqueued', string.format('%d', #new))
if not is_woken and (#to_ready > 0 or soonest < (tonumber(head[2]) or math.huge)) then note('ZADD', wake, '0', 'wake') end
if watch == 'on' or (tonumber(watch) or 0) > now_ms then
  for _, id in ipairs(new) do note('XADD', events, 'MAXLEN', '~', '10000', '*', 'verb', 'enqueue', 'id', id) end
end
return words
