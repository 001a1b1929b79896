-- A page of the jobs of a queue in a place, in its order: of `queue` the next one first, of `eta` by it, of the others by when a worker took
-- them.
--
-- `eta`, `unacked` and `late` are parts of one hash that holds what workers hold of all queues: the first 300, or the first of them that make a megabyte, are looked through for those
-- of this queue, `offset` counts its own, and `total` is how many were found; `of` is about how many there are, where that is not all.
-- A message of up to 4096 bytes, or `body_bytes` if that is more, is whole in `head`; of a longer one `head` has the first 4096, `tail` the
-- last 6144. Out of the hash it stands as `[message, exchange, routing key]`; `tag` is its field, `score` when it was taken, `step`
-- the priority of its list.
--
-- derived  <queue><sep><step>                   the list of another priority
--          <prefix>_kombu.binding.<exchange>    which queue a routing key means
-- KEYS     queue                       list  messages of priority 0, the last one is next
--          unacked (eta late)          hash  tag to [message, exchange, routing key]
--          unacked_index               zset  tag by when it was taken (s)
-- ARGV     now_ms?     int   a test's clock; the server's when empty
--          prefix      str   before all keys, or nothing
--          sep         str   what parts a queue from its priority
--          steps       str   the priorities that have a list: 0/3/6/9
--          visibility  int   after so many seconds kombu gives out again what a worker holds
--          place       str   eta, queue, unacked or late
--          offset      int   how many to pass over; -1 for the last page
--          limit       int   how many at most, 1 to 1000
--          body_bytes  int   messages of up to so many bytes come whole; -1: all
-- returns  page  (now_ms int, total int, of? int)
--                rows (head bytes, size int, tail bytes, score str, tag bytes, step str)
local queue, unacked, unacked_index = KEYS[1], KEYS[2], KEYS[3]
for _, at in ipairs({7, 8, 9}) do
  if #ARGV < 9 or #ARGV[at] > 15 or not string.find(ARGV[at], '^%-?%d+$') then
    return redis.error_reply('ERR it takes 9 arguments, whole numbers where the header says int; nothing was changed')
  end
end
local place, offset, limit, body_bytes = ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
if limit < 1 or limit > 1000 then return redis.error_reply('ERR limit is 1 to 1000') end
local visibility = ARGV[5]
-- block: clock, celery_options, celery_visibility
if #ARGV < 1 or #ARGV[1] > 15 or string.find(ARGV[1], '%D') then
  return redis.error_reply('ERR now_ms is a whole number; nothing was changed')
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
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
-- end
-- block: celery_entry, celery_held, celery_row
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
local function each_held(first, last, most, look, budget) -- look(text, queue, place, score, tag, eta); of more than `most` bytes neither text nor queue
  local spent = 0
  for from = first, last, 50 do
    local members = redis.call('ZRANGE', unacked_index, from, math.min(last, from + 49), 'WITHSCORES')
    for i = 1, #members, 2 do
      local tag, score, passed = members[i], members[i + 1], from + (i - 1) / 2
      if budget and spent >= budget then return passed end
      local length = redis.call('HSTRLEN', unacked, tag)
      if length > 0 then
        local text, own, eta = nil, nil, -1
        if length <= most then
          text, spent = redis.call('HGET', unacked, tag), spent + length
          own, eta = entry_of(text)
        end
        local is_late = (tonumber(score) or 0) * 1000 < now_ms - visibility_ms
        if look(text, own, eta > now_ms and 'eta' or is_late and 'late' or 'unacked', score, tag, eta) == false then return passed + 1 end
      end
    end
  end
  return last + 1
end
local most = body_bytes < 0 and math.huge or math.max(4096, body_bytes)
local function job_row(text, score, tag, step)
  if #text <= most then return {text, #text, '', score, tag, step} end
  return {string.sub(text, 1, 4096), #text, string.sub(text, -6144), score, tag, step}
end
-- end
local rows = {}
if place == 'queue' then
  local total, lengths = 0, {}
  for at, list in ipairs(lists) do
    lengths[at] = redis.call('LLEN', list[1])
    total = total + lengths[at]
  end
  local passed = offset < 0 and math.max(0, total - limit) or offset
  for at, list in ipairs(lists) do
    local left = limit - #rows
    if passed < lengths[at] and left > 0 then
      local found = redis.call('LRANGE', list[1], math.max(-lengths[at], -passed - left), -passed - 1)
      for i = #found, 1, -1 do rows[#rows + 1] = job_row(found[i], '', '', list[2]) end
    end
    passed = math.max(0, passed - lengths[at])
  end
  return {'page', now_ms, total, '', rows}
end
if place ~= 'eta' and place ~= 'unacked' and place ~= 'late' then return redis.error_reply('ERR there is no place ' .. place) end
local card, found = redis.call('ZCARD', unacked_index), {}
local looked = each_held(0, math.min(card, 300) - 1, math.huge, function(text, held_queue, where, score, tag, eta)
  if held_queue == name and where == place then found[#found + 1] = {eta, text, score, tag} end
end, 1048576)
if place == 'eta' then
  for at, each in ipairs(found) do each[5] = at end
  table.sort(found, function(a, b) return a[1] < b[1] or (a[1] == b[1] and a[5] < b[5]) end)
end
local first = offset < 0 and math.max(0, #found - limit) or offset
for at = first + 1, math.min(#found, first + limit) do rows[#rows + 1] = job_row(found[at][2], found[at][3], found[at][4], '') end
return {'page', now_ms, #found, looked < card and math.floor(#found * card / looked + 0.5) or '', rows}
