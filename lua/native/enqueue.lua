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
--          each      (id bytes, body bytes, name? str, delay_ms? int, due_ms? int, priority? int, ttr_ms? int,
--                     max_attempts? int, backoff_ms? int, backoff_cap_ms? int, keep_ms? int)
-- returns each  moved   enqueued
--               exists  the queue knows this id already
local scheduled, ready, done, jobs, bodies, attempts, errors, meta, events, minutes, wake =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11]
local version, seq, watch, last_minute = unpack(redis.call('HMGET', meta, 'version', 'seq', 'events', 'minute'))
local remembered, waiting = redis.call('ZCARD', done), redis.call('ZCARD', scheduled)
local is_woken = redis.call('ZCARD', wake) > 0
redis.call('ZCARD', ready)
redis.call('HLEN', bodies)
redis.call('HLEN', attempts)
redis.call('HLEN', errors)
redis.call('XLEN', events)
redis.call('XLEN', minutes)
-- block: opening, sequence
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
if tonumber(version or 1) ~= 1 then
  return redis.error_reply('ERR this queue has schema version ' .. version .. ', these scripts speak 1; nothing was changed')
end
if seq and not string.match(seq, '^%d+$') then
  return redis.error_reply('ERR the field seq of ' .. meta .. ' is not a number; nothing was changed')
end
-- end
local count = (#ARGV - 1) / 11
if count < 1 or count > 1000 or count ~= math.floor(count) then
  return redis.error_reply('ERR a batch has 1 to 1000 jobs of 11 columns; nothing was changed')
end
if #ARGV[1] > 13 or string.find(ARGV[1], '%D') then return redis.error_reply('ERR now_ms is a whole number; nothing was changed') end
local function fault(at) -- what is wrong with the options of the row that begins there
  local year = 31622400000
  local bounds = { -- column, name, lowest, highest
    {3, 'delay_ms', 0, 100 * year}, {4, 'due_ms', 0, 9007199254740}, {5, 'priority', -4096, 4095}, {6, 'ttr_ms', 1, year},
    {7, 'max_attempts', 1, 1000000}, {8, 'backoff_ms', 0, year}, {9, 'backoff_cap_ms', 0, year}, {10, 'keep_ms', 0, 100 * year},
  }
  for _, bound in ipairs(bounds) do
    local text = ARGV[at + bound[1]]
    local number = string.match(text, '^%-?%d+$') and tonumber(text)
    if text ~= '' and not (number and number >= bound[3] and number <= bound[4]) then
      return bound[2] .. ' is a whole number from ' .. bound[3] .. ' to ' .. string.format('%.0f', bound[4])
    end
  end
end

local words, records, long, to_ready, to_scheduled, stale, seen, new = {}, {}, {}, {}, {}, {}, {}, {}
local plain = now_ms .. ' - 0 - - - - - - ' -- the header of a job without options, which most are
local soonest, next_seq = math.huge, tonumber(seq) or 0
for row = 1, count do
  local at = row * 11 - 9
  local id, body, name, has_options = ARGV[at], ARGV[at + 1], ARGV[at + 2], false
  for column = at + 3, at + 10 do has_options = has_options or ARGV[column] ~= '' end
  local wrong = (#id < 1 or #id > 512) and 'an id has 1 to 512 bytes, not ' .. #id
    or (#name > 200 or string.find(name, '%c')) and 'a name has up to 200 bytes and no control characters'
    or has_options and fault(at)
  if wrong then return redis.error_reply('ERR job ' .. row .. ' of the batch: ' .. wrong .. '; nothing was changed') end
  local forget_at = remembered > 0 and tonumber(redis.call('ZSCORE', done, id) or nil)
  local expired = forget_at and forget_at <= now_ms
  if seen[id] or (forget_at and not expired) or (not expired and redis.call('HEXISTS', jobs, id) == 1) then
    words[row] = 'exists'
  else
    words[row], seen[id], new[#new + 1] = 'moved', true, id
    if expired then stale[#stale + 1] = id end
    local due, priority, header = nil, 0, plain
    if #body > 4096 then long[#long + 1], long[#long + 2] = id, body end
    if has_options or #body > 4096 then
      due = ARGV[at + 3] ~= '' and now_ms + tonumber(ARGV[at + 3]) or tonumber(ARGV[at + 4])
      priority, header = tonumber(ARGV[at + 5]) or 0, {now_ms, due or '-', tonumber(ARGV[at + 5]) or 0}
      for column = 6, 10 do header[column - 2] = ARGV[at + column] == '' and '-' or ARGV[at + column] end
      header = table.concat(header, ' ') .. ' ' .. (#body > 4096 and #body or '-') .. ' '
    end
    records[#records + 1], records[#records + 2] = id, header .. name .. '\n' .. (#body > 4096 and '' or body)
    if due and due > now_ms then
      to_scheduled[#to_scheduled + 1], to_scheduled[#to_scheduled + 2] = due, id
      soonest = math.min(soonest, due)
    else
      next_seq = next_seq + 1
      to_ready[#to_ready + 1], to_ready[#to_ready + 2] = string.format('%.0f', priority * 2 ^ 40 + next_seq), id
    end
  end
end
if #new == 0 then return words end
local head = waiting > 0 and redis.call('ZRANGE', scheduled, 0, 0, 'WITHSCORES') or {}

redis.call('HSET', jobs, unpack(records))
if #stale > 0 then
  for _, key in ipairs({bodies, attempts, errors}) do redis.call('HDEL', key, unpack(stale)) end
end
if #long > 0 then redis.call('HSET', bodies, unpack(long)) end
redis.call('HSET', meta, 'version', 1, 'seq', string.format('%.0f', next_seq))
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
note('HINCRBY', meta, 'enqueued', #new)
if not is_woken and (#to_ready > 0 or soonest < (tonumber(head[2]) or math.huge)) then note('ZADD', wake, 0, 'wake') end
if watch == 'on' or (tonumber(watch) or 0) > now_ms then
  for _, id in ipairs(new) do note('XADD', events, 'MAXLEN', '~', 10000, '*', 'verb', 'enqueue', 'id', id) end
end
return words
