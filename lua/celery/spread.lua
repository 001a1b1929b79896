-- What workers hold of each queue, of all queues together.
--
-- Of more than 200 entries a sample is looked at. A queue without a row has none. `tasks` are the names of up to 20 tasks of it, a line each.
--
-- derived  <prefix>_kombu.binding.<exchange>    which queue a routing key means
-- KEYS     unacked        hash  tag to [message, exchange, routing key]
--          unacked_index  zset  tag by when it was taken (s)
-- ARGV     now_ms?     int  a test's clock; the server's when empty
--          prefix      str  before all keys, or nothing
--          sep         str  what parts a queue from its priority
--          visibility  int  after so many seconds kombu gives out again what a worker holds
-- returns  counted  (now_ms int, eta_exact bool, unacked_exact bool, late_exact bool, eta_of int, unacked_of int, late_of int)
--                   rows (queue str, eta int, unacked int, late int, expired int, due_ms int, deadline_ms int, tasks str)
local unacked, unacked_index = KEYS[1], KEYS[2]
if #ARGV < 4 then return redis.error_reply('ERR it takes 4 arguments; nothing was changed') end
local prefix = ARGV[2]
local visibility = ARGV[4]
-- block: clock, celery_visibility
if #ARGV < 1 or #ARGV[1] > 15 or string.find(ARGV[1], '%D') then
  return redis.error_reply('ERR now_ms is a whole number; nothing was changed')
end
local clock = redis.call('TIME')
local now_ms = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
if not visibility or #visibility > 10 or not string.find(visibility, '^%d+$') then
  return redis.error_reply('ERR visibility is a whole number of seconds; nothing was changed')
end
local visibility_ms = visibility * 1000
-- end
-- block: type_of, celery_entry, celery_held, celery_spread
local function type_of(key) -- a table, or a string where Redis is played
  local found = redis.call('TYPE', key)
  return type(found) == 'table' and found.ok or found
end
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
local is_theirs = type_of(unacked) == 'hash' and type_of(unacked_index) == 'zset'
local card = is_theirs and redis.call('ZCARD', unacked_index) or 0
local stretches = {{0, math.min(card, 200) - 1}}
if card > 200 then
  stretches[1][2] = 63
  for i = 1, 4 do
    local from = 64 + math.floor((card - 96) * i / 4)
    stretches[#stretches + 1] = {from, from + 31}
  end
end
local met, looked, unread, was_cut, next_due, next_restore = {}, 0, 0, false, {}, {}
local named, is_named = {}, {}
local of_all = {eta = 0, unacked = 0, late = 0}
for _, stretch in ipairs(stretches) do
  local stop = each_held(stretch[1], stretch[2], 16384, function(text, own, place, score, _, eta)
    looked = looked + 1
    of_all[place] = of_all[place] + 1
    if not own then
      unread = unread + 1
      return
    end
    met[own] = met[own] or {eta = 0, unacked = 0, late = 0}
    met[own][place] = met[own][place] + 1
    local task = string.match(text, '"task": ?"([^"\\]+)"', string.find(text, '"headers":', 1, true))
    named[own] = named[own] or {}
    if task and #task <= 200 and #named[own] < 20 and not is_named[own .. '\n' .. task] then
      named[own][#named[own] + 1], is_named[own .. '\n' .. task] = task, true
    end
    if place == 'eta' then next_due[own] = math.min(next_due[own] or math.huge, eta) end
    local restore_ms = math.floor((tonumber(score) or 0) * 1000) + visibility_ms
    if place ~= 'late' then next_restore[own] = math.min(next_restore[own] or math.huge, restore_ms) end
  end, 400000)
  was_cut = was_cut or stop <= stretch[2]
end
local is_all = card <= 200 and unread == 0 and not was_cut
local scale = (card > 200 or was_cut) and looked > 0 and card / looked or 1
for place, number in pairs(of_all) do of_all[place] = math.floor(number * scale + 0.5) end
local function shares(of)
  local own = met[of] or {eta = 0, unacked = 0, late = 0}
  return math.floor(own.eta * scale + 0.5), math.floor(own.unacked * scale + 0.5), math.floor(own.late * scale + 0.5)
end
-- end
local rows, exact = {}, is_all and 1 or 0
for queue in pairs(met) do
  local eta, held, late = shares(queue)
  rows[#rows + 1] = {queue, eta, held, late, late, next_due[queue] or -1, next_restore[queue] or -1, table.concat(named[queue], '\n')}
end
table.sort(rows, function(a, b) return a[1] < b[1] end)
return {'counted', now_ms, exact, exact, exact, of_all.eta, of_all.unacked, of_all.late, rows}
