-- Delete messages that wait, or that are late: those that kombu would give out again since nobody acked them in time.
--
-- What a worker holds stands in its memory, too, and would run all the same: cancel it. A message is looked for near both ends of each
-- list.
--
-- moves    queue late ->
-- writes   unacked_index
-- derived  <queue><sep><step>                 the list of another priority
--          <prefix>_kombu.binding.<exchange>  which queue a routing key means
-- KEYS     queue           list  messages of priority 0, the last one is next
--          unacked (late)  hash  tag to [message, exchange, routing key]
--          unacked_index   zset  tag by when it was taken (s)
-- ARGV     queue       str   its name
--          prefix      str   before all keys, or nothing
--          sep         str   what parts a queue from its priority
--          steps       str   the priorities that have a list: 0/3/6/9
--          visibility  int   after so many seconds kombu gives out again what a worker holds
--          now_ms?     int   a test's clock; the server's when empty
--          place?      str   only there; anywhere when empty
--          each        (member bytes, token? str, step? str)  the bytes, the tag of what a worker took, the priority of the list
-- returns each  moved        deleted
--               wrong_place  (place str)  a worker holds it, and would run it all the same: cancel it
--               later        the queue is too long to look for so many at once
--               gone         it stands there no more
local queue, unacked, unacked_index, place = KEYS[1], KEYS[2], KEYS[3], ARGV[7]
local scalars, columns = 7, 3
local visibility = ARGV[5]
-- block: celery_options, celery_visibility, celery_batch, celery_of_queue, celery_now, celery_entry, celery_held_here, celery_lengths, celery_listed, celery_free_room, celery_take_out
if #ARGV < 4 or not string.find(ARGV[4], '^%d+[%d/]*$') then
  return redis.error_reply('ERR it takes a prefix, which may be empty, a separator, and priorities as 0/3/6/9; nothing was changed')
end
local prefix, lists = ARGV[2], {}
local name = string.sub(queue, #prefix + 1)
for step in string.gmatch(ARGV[4], '%d+') do -- kombu/transport/redis.py 5.7, `_q_for_pri`
  lists[#lists + 1] = {tonumber(step) == 0 and queue or queue .. ARGV[3] .. step, step}
end
if not visibility or #visibility > 10 or not string.find(visibility, '^%d+$') then
  return redis.error_reply('ERR visibility is a whole number of seconds; nothing was changed')
end
local visibility_ms = visibility * 1000
local rows = (#ARGV - scalars) / columns
if rows < 1 or rows > 1000 or rows ~= math.floor(rows) then
  return redis.error_reply('ERR it takes 1 to 1000 rows, each with all of its columns; nothing was changed')
end
if ARGV[1] == '' or ARGV[1] ~= name then
  return redis.error_reply('ERR the list of a queue is the prefix and its name, which is the first argument; nothing was changed')
end
if #ARGV < 6 or #ARGV[6] > 15 or string.find(ARGV[6], '%D') then
  return redis.error_reply('ERR now_ms is a whole number; nothing was changed')
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[6]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local function eta_ms(text) -- `2026-11-22T21:44:12.311195+00:00`; -1 for what is no time
  local y, mon, d, h, min, s, rest = string.match(text, '^(%d%d%d%d)-(%d%d)-(%d%d)[T ](%d%d):(%d%d):(%d%d)(.*)$')
  if not y then return -1 end
  y, mon, d = tonumber(y), tonumber(mon), tonumber(d)
  if mon <= 2 then y, mon = y - 1, mon + 12 end
  local days = 365 * y + math.floor(y / 4) - math.floor(y / 100) + math.floor(y / 400) + math.floor((153 * (mon - 3) + 2) / 5) + d - 719469
  local sign, east_h, east_min = string.match(rest, '([+-])(%d%d):?(%d%d)$')
  local east = sign and (sign == '-' and -1 or 1) * (east_h * 60 + east_min) or 0
  local part = string.match(rest, '^%.(%d+)') or '0'
  return (((days * 24 + h) * 60 + min - east) * 60 + s) * 1000 + math.floor(tonumber('0.' .. part) * 1000)
end
local tables, queues = {}, {}
local function table_of(exchange) -- by routing key without a wildcard, the first of each; those with one, as patterns, in order
  local found, read = redis.pcall('SSCAN', prefix .. '_kombu.binding.' .. exchange, 0, 'COUNT', 1000), {exact = {}, patterns = {}}
  for _, binding in ipairs(found.err and {} or found[2]) do
    local first = string.find(binding, ARGV[3], 1, true)
    local last = first and string.find(binding, ARGV[3], first + #ARGV[3], true)
    local key = last and string.sub(binding, 1, first - 1)
    local one = key and {binding, string.sub(binding, last + #ARGV[3])}
    if one and string.find(key, '[*#]') then
      local pattern = string.gsub(string.gsub(string.gsub(key, '[^%w*#]', '%%%0'), '%*', '[^.]+'), '#', '.*')
      one[3] = '^' .. pattern .. '$'
      table.insert(read.patterns, one)
    elseif one and not (read.exact[key] and read.exact[key][1] < binding) then
      read.exact[key] = one
    end
  end
  table.sort(read.patterns, function(x, y) return x[1] < y[1] end)
  return read
end
local function bound(exchange, routing_key) -- the queue that kombu would give the message to (kombu/transport/virtual/exchange.py)
  if exchange == '' then return routing_key end
  local known = queues[exchange] or {}
  queues[exchange] = known
  if known[routing_key] then return known[routing_key] end
  known[routing_key] = routing_key -- a queue of this name is bound by it more often than not, and a table may be long
  local its_own = routing_key .. ARGV[3] .. ARGV[3] .. routing_key
  if redis.pcall('SISMEMBER', prefix .. '_kombu.binding.' .. exchange, its_own) ~= 1 then
    local of = tables[exchange] or table_of(exchange)
    tables[exchange] = of
    local best = of.exact[routing_key]
    for _, one in ipairs(of.patterns) do
      if best and best[1] < one[1] then break end
      if string.find(routing_key, one[3]) then best = one end
    end
    known[routing_key] = best and best[2] or routing_key
  end
  return known[routing_key]
end
local function entry_of(text) -- the queue and the ETA in ms, -1 for none; no queue where nobody can tell
  local length = #text
  local ending = ', ?"([^"\\]*)", ?"([^"\\]*)"%]$'
  local exchange, routing_key = string.match(text, ending, math.max(1, length - 60)) -- most names are short, and each place of a try costs
  if not exchange then exchange, routing_key = string.match(text, ending, math.max(1, length - 700)) end
  local headers = string.find(text, '"headers":', math.max(1, length - 20000), true)
  local _, at = string.find(text, '"eta":', headers or length, true)
  local is_plain = exchange and headers and not (at and math.min(string.find(text, '{', headers + 13, true) or at, string.find(text, '[', headers + 13, true) or at) < at)
  if is_plain and (at or length <= 20000) then
    return bound(exchange, routing_key), at and eta_ms(string.match(text, '^ ?"([^"\\]+)"', at + 1) or '') or -1
  end
  local is_read, told = pcall(cjson.decode, length <= 1048576 and text or '')
  if not is_read or type(told) ~= 'table' or type(told[3]) ~= 'string' then return exchange and bound(exchange, routing_key), -1 end
  local own = type(told[1]) == 'table' and told[1].headers
  local eta = type(own) == 'table' and own.eta
  return bound(type(told[2]) == 'string' and told[2] or '', told[3]), type(eta) == 'string' and eta_ms(eta) or -1
end
redis.call('HLEN', unacked)
redis.call('ZCARD', unacked_index)
local function held_here(token, member)
  local text = redis.call('HGET', unacked, token)
  if not text or text ~= member then return end
  local own, eta = entry_of(text)
  local score = redis.call('ZSCORE', unacked_index, token)
  if own ~= name or not score then return end
  return eta > now_ms and 'eta' or tonumber(score) * 1000 < now_ms - visibility_ms and 'late' or 'unacked'
end
local lengths = {}
for i, list in ipairs(lists) do lengths[i] = redis.call('LLEN', list[1]) end
local reach, budget, taken, count, last = rows == 1 and 50000 or 5000, 200000, {}, {}, {}
local function spot_in(i, member)
  local list, length, own = lists[i][1], lengths[i], taken[i] or {}
  taken[i] = own
  local function take(at)
    own[at], last[i], count[member] = true, at, (count[member] or 0) + 1
    return at
  end
  for at = (last[i] or length) - 1, (last[i] or length) + 1, 2 do -- rows of a page stand side by side
    local from_end = at * 2 < length and at or at - length -- or the server walks there from the other end
    if at >= 0 and at < length and not own[at] and redis.call('LINDEX', list, from_end) == member then return take(at) end
  end
  for _, rank in ipairs({-1, 1}) do
    local part = math.min(reach, budget, length)
    local found = part > 0 and redis.call('LPOS', list, member, 'RANK', rank, 'COUNT', (count[member] or 0) + 1, 'MAXLEN', part) or {}
    for _, at in ipairs(found) do
      if not own[at] then
        budget = budget - (rank < 0 and length - at or at)
        return take(at)
      end
    end
    budget = budget - part
    if part == length then return nil, false end
  end
  return nil, length > 2 * reach or budget <= 0
end
local function next_spot(member, step)
  local is_unsure = false
  for turn = 1, 2 do
    for i, list in ipairs(lists) do
      if lengths[i] > 0 and (turn == 1) == (list[2] == step) then
        local at, may_stand = spot_in(i, member)
        if at then return {i, at, member} end
        is_unsure = is_unsure or may_stand
      end
    end
  end
  return nil, is_unsure
end
local HOLE = '\1a hole'
local function free_room()
  local shortest = 1
  for i in ipairs(lists) do
    if lengths[i] < lengths[shortest] then shortest = i end
  end
  redis.call('LREM', lists[shortest][1], 1, HOLE)
end
local function take_out(spots, pushed)
  local holes = {}
  for _, spot in ipairs(spots) do
    local i, at = spot[1], spot[2]
    local is_near = at * 2 < lengths[i]
    redis.call('LSET', lists[i][1], is_near and at or at - lengths[i] - (pushed[i] or 0), HOLE)
    holes[i] = holes[i] or {0, 0}
    holes[i][is_near and 1 or 2] = holes[i][is_near and 1 or 2] + 1
  end
  for i, number in pairs(holes) do
    if number[1] > 0 then redis.call('LREM', lists[i][1], number[1], HOLE) end
    if number[2] > 0 then redis.call('LREM', lists[i][1], -number[2], HOLE) end
  end
end
-- end
if not ({[''] = 1, queue = 1, eta = 1, unacked = 1, late = 1})[place] then
  return redis.error_reply('ERR there is no place of that name; nothing was changed')
end
local words, spots, tags = {}, {}, {}
for at = scalars + 1, #ARGV, columns do
  local member, token, step = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local stands = token ~= '' and held_here(token, member)
  local spot, is_unsure
  if token == '' and (place == '' or place == 'queue') then spot, is_unsure = next_spot(member, step) end
  if stands == 'late' and (place == '' or place == 'late') then
    words[#words + 1], tags[#tags + 1] = 'moved', token
  elseif stands then
    words[#words + 1] = {'wrong_place', stands}
  elseif spot then
    words[#words + 1], spots[#spots + 1] = 'moved', spot
  else
    words[#words + 1] = is_unsure and 'later' or 'gone'
  end
end
if #spots + #tags == 0 then return words end

free_room()
if #tags > 0 then
  redis.call('ZREM', unacked_index, unpack(tags))
  redis.call('HDEL', unacked, unpack(tags))
end
take_out(spots, {})
return words
