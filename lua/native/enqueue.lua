-- Enqueue new jobs.
--
-- A job whose id exists in any place is not changed, so a call can be sent again. One invalid argument refuses the
-- whole batch. A body of more than 4096 bytes is stored in `bodies`, so that no move copies it.
--
-- moves    -> ready | scheduled
-- forgets  done
-- writes   jobs bodies attempts errors meta events minutes wake
-- KEYS     scheduled ready done jobs bodies attempts errors meta events minutes wake
-- ARGV     now_ms?   int     a test's clock; the server's when empty
--          columns?  int     the number of columns that each row has, from the left; all when empty
--          each      (id bytes, body bytes, name? str, delay_ms? int, due_ms? int, priority? int, ttr_ms? int,
--                     max_attempts? int, backoff_ms? int, backoff_cap_ms? int, keep_ms? int)
-- returns each  moved   enqueued
--               exists  the id exists already
-- include: keys
local version, seq, watch, last_minute = unpack(redis.call('HMGET', meta, 'version', 'seq', 'events', 'minute'))
local kept, is_woken = redis.call('ZCARD', done), redis.call('ZCARD', wake) > 0
-- include: opening, sequence, noting
if #ARGV < 2 or ARGV[1] ~= '' and (#ARGV[1] > 13 or string.find(ARGV[1], '%D')) then
  return redis.error_reply('ERR now_ms is a whole number; nothing was changed')
end
local columns = ARGV[2] == '' and 11 or not string.find(ARGV[2], '%D') and tonumber(ARGV[2])
if not columns or columns < 2 or columns > 11 then
  return redis.error_reply('ERR columns is a whole number from 2 to 11; nothing was changed')
end
local count = (#ARGV - 2) / columns
if count < 1 or count > 1000 or count % 1 > 0 then
  return redis.error_reply('ERR a batch has 1 to 1000 jobs of ' .. columns .. ' columns; nothing was changed')
end
local options, bounds, delayed, is_long = nil, nil, 0, false
for row = 1, count do
  local at, own = 3 + (row - 1) * columns, nil
  local id, length, name = ARGV[at], #ARGV[at + 1], columns > 2 and ARGV[at + 2] or ''
  local wrong = (#id < 1 or #id > 512) and 'an id has 1 to 512 bytes, not ' .. #id
    or name ~= '' and (#name > 200 or string.find(name, '%c')) and 'a name has up to 200 bytes and no control characters'
  for column = 3, columns - 1 do
    local text = ARGV[at + column]
    if text ~= '' then
      local year = 31622400000
      bounds = bounds or { -- name, lowest, highest; in the order of the columns
        {'delay_ms', 0, 100 * year}, {'due_ms', 0, 9007199254740}, {'priority', -4096, 4095}, {'ttr_ms', 1, year},
        {'max_attempts', 1, 1000000}, {'backoff_ms', 0, year}, {'backoff_cap_ms', 0, year}, {'keep_ms', 0, 100 * year},
      }
      local bound, number = bounds[column - 2], string.match(text, '^%-?%d+$') and tonumber(text)
      if not (number and number >= bound[2] and number <= bound[3]) then
        wrong = wrong or bound[1] .. ' is a whole number from ' .. bound[2] .. ' to ' .. string.format('%d', bound[3])
      end
      own = own or {}
      own[column] = text
    end
  end
  if wrong then return redis.error_reply('ERR job ' .. row .. ' of the batch: ' .. wrong .. '; nothing was changed') end
  is_long = is_long or length > 4096
  if own or length > 4096 then
    own = own or {}
    local delay_ms, priority = tonumber(own[3]), tonumber(own[5]) or 0
    local due = delay_ms and now_ms + delay_ms or tonumber(own[4])
    local header = {string.format('%d', now_ms), due and string.format('%d', due) or '-', priority}
    for column = 6, 10 do header[column - 2] = own[column] or '-' end
    header = table.concat(header, ' ') .. ' ' .. (length > 4096 and length or '-') .. ' '
    local is_delayed = due and due > now_ms
    if is_delayed then delayed = delayed + 1 end
    options = options or {}
    options[row] = {header = header, priority = priority, due = is_delayed and string.format('%d', due)}
  end
end
local next_due = delayed > 0 and redis.call('ZRANGE', scheduled, '0', '0', 'WITHSCORES')[2]
if delayed < count then redis.call('ZCARD', ready) end
if is_long or kept > 0 then redis.call('HLEN', bodies) end
if kept > 0 then
  redis.call('HLEN', attempts)
  redis.call('HLEN', errors)
end
local short = string.format('%d:', now_ms) -- Most jobs have no options, and share this header.
local outcomes, to_ready, to_scheduled, long, stale = {}, {}, delayed > 0 and {}, is_long and {}, kept > 0 and {}
local moved, soonest, next_seq = 0, math.huge, (seq or 0) + 0
for row = 1, count do
  local at, option = 3 + (row - 1) * columns, options and options[row]
  local id, body = ARGV[at], ARGV[at + 1]
  local record = (option and option.header or short) .. (columns > 2 and ARGV[at + 2] or '') .. '\n' .. (#body > 4096 and '' or body)
  local forget_at = stale and tonumber(redis.call('ZSCORE', done, id) or nil)
  local is_new
  if forget_at and forget_at <= now_ms and not stale[id] then -- A done job whose time is over is replaced.
    is_new, stale[id], stale[#stale + 1] = true, true, id
    redis.call('HSET', jobs, id, record)
  else
    is_new = not forget_at and redis.call('HSETNX', jobs, id, record) == 1
  end
  outcomes[row] = is_new and 'moved' or 'exists'
  if is_new then
    moved = moved + 1
    if #body > 4096 then long[#long + 1], long[#long + 2] = id, body end
    if option and option.due then
      soonest = math.min(soonest, tonumber(option.due))
      to_scheduled[#to_scheduled + 1], to_scheduled[#to_scheduled + 2] = option.due, id
    else
      next_seq = next_seq + 1
      seq = string.format('%d', next_seq)
      local score = option and option.priority ~= 0 and string.format('%d', option.priority * 2 ^ 40 + next_seq) or seq
      to_ready[#to_ready + 1], to_ready[#to_ready + 2] = score, id
    end
  end
end
if moved == 0 then return outcomes end

if stale and #stale > 0 then
  for _, key in ipairs({bodies, attempts, errors}) do redis.call('HDEL', key, unpack(stale)) end
end
if long and #long > 0 then redis.call('HSET', bodies, unpack(long)) end
if version ~= '2' then redis.call('HSET', meta, 'version', '2') end
redis.call('HSET', meta, 'seq', seq or '0')
if #to_ready > 0 then redis.call('ZADD', ready, unpack(to_ready)) end
if to_scheduled and #to_scheduled > 0 then redis.call('ZADD', scheduled, unpack(to_scheduled)) end
if stale and #stale > 0 then redis.call('ZREM', done, unpack(stale)) end
-- include: minute
note('HINCRBY', meta, 'enqueued', string.format('%d', moved))
if not is_woken and (#to_ready > 0 or soonest < (tonumber(next_due) or math.huge)) then note('ZADD', wake, '0', 'wake') end
if watch == 'on' or (tonumber(watch) or 0) > now_ms then
  for row, word in ipairs(outcomes) do
    if word == 'moved' then note('XADD', events, 'MAXLEN', '~', '10000', '*', 'verb', 'enqueue', 'id', ARGV[3 + (row - 1) * columns]) end
  end
end
return outcomes
