-- Reap what nobody acked in time: the messages are the next ones of their priority, the one taken first at the head.
--
-- Every consumer of kombu does it, at its next sweep (about every 100 s), by its own visibility timeout: this is sooner, and by the one
-- that is given. They say `redelivered` then; all other bytes stay. One whose ETA is still to come is left: a worker waits with it.
-- One call looks at 200 entries of all queues, and about 4 MB; `rank` is where the next one begins. `next_ms` is the time until the next one is late.
--
-- moves    late -> queue
-- writes   unacked_index
-- derived  <queue><sep><step>                 the list of another priority
--          <prefix>_kombu.binding.<exchange>  which queue a routing key means
-- KEYS     queue           list  messages of priority 0, the last one is next
--          unacked (late)  hash  tag to [message, exchange, routing key]
--          unacked_index   zset  tag by when it was taken (s)
-- ARGV     queue       str  its name
--          prefix      str  before all keys, or nothing
--          sep         str  what parts a queue from its priority
--          steps       str  the priorities that have a list: 0/3/6/9
--          visibility  int  after so many seconds kombu gives out again what a worker holds
--          now_ms?     int  a test's clock; the server's when empty
--          limit       int  how many at most, 1 to 1000
--          rank?       int  the rank of the first entry that is looked at
-- returns  moved  (moved int, ready int, dead int, next_ms int, more bool, rank int)  reaped
--          empty  (next_ms int, more bool, rank int)  nothing of the queue is late
local queue, unacked, unacked_index, limit, rank = KEYS[1], KEYS[2], KEYS[3], tonumber(ARGV[7]), tonumber(ARGV[8]) or 0
local visibility = ARGV[5]
-- block: celery_options, celery_visibility, celery_of_queue, celery_list_of, celery_now, celery_entry, celery_held, celery_given_back
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
if ARGV[1] == '' or ARGV[1] ~= name then
  return redis.error_reply('ERR the list of a queue is the prefix and its name, which is the first argument; nothing was changed')
end
local function list_of(priority)
  local found = #lists
  for i, list in ipairs(lists) do
    if tonumber(list[2]) <= priority then found = i end
  end
  return found
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
local function string_end(text, at)
  while true do
    at = string.find(text, '["\\]', at + 1)
    if not at or string.byte(text, at) == 34 then return at end
    at = at + 1
  end
end
local function value_end(text, at) -- the last byte of the JSON value that begins there
  local depth = 0
  while at do
    local byte = string.byte(text, at)
    if byte == 34 then
      at = string_end(text, at)
    elseif byte == 123 or byte == 91 then
      depth = depth + 1
    elseif byte == 125 or byte == 93 then
      depth = depth - 1
    else
      at = string.match(text, '^[^,%]}%s]+()', at)
      return at and at - 1
    end
    if depth == 0 then return at end
    at = at and string.find(text, '["{}%[%]]', at + 1)
  end
end
local function field(object, wanted) -- where its value begins and ends; of a repeated name the last
  local from, to
  local at = string.match(object, '^{%s*()"')
  while at do
    local close = string_end(object, at)
    local value = close and string.match(object, '^%s*:%s*()%S', close + 1)
    local stop = value and value_end(object, value)
    if not stop then return end
    if string.sub(object, at + 1, close - 1) == wanted then from, to = value, stop end
    at = string.match(object, '^%s*,%s*()"', stop + 1)
  end
  return from, to
end
local function with(object, wanted, value) -- the object with that field
  local from, to = field(object, wanted)
  if from then return string.sub(object, 1, from - 1) .. value .. string.sub(object, to + 1) end
  local is_empty = string.find(object, '^{%s*}$')
  return string.sub(object, 1, -2) .. (is_empty and '"' or ', "') .. wanted .. '": ' .. value .. '}'
end
local function part(object, wanted) -- the object that stands there
  local from, to = field(object, wanted)
  return from and string.byte(object, from) == 123 and string.sub(object, from, to) or nil
end
local function given_back(entry)
  local from = string.match(entry, '^%s*%[%s*(){')
  local to = from and value_end(entry, from)
  local message = to and string.sub(entry, from, to)
  local properties, headers = message and part(message, 'properties'), message and part(message, 'headers')
  local info = properties and part(properties, 'delivery_info')
  if not info then return end
  local at, stop = field(properties, 'priority')
  local priority = at and tonumber((string.gsub(string.sub(properties, at, stop), '"', ''))) or 0
  message = with(message, 'properties', with(properties, 'delivery_info', with(info, 'redelivered', 'true')))
  if headers then message = with(message, 'headers', with(headers, 'redelivered', 'true')) end
  return message, math.max(0, math.min(9, math.floor(priority)))
end
-- end
for _, list in ipairs(lists) do redis.call('LLEN', list[1]) end
if #ARGV < 8 or not string.find(ARGV[7], '^%d+$') or limit < 1 or limit > 1000 or #ARGV[8] > 15 or string.find(ARGV[8], '%D') then
  return redis.error_reply('ERR limit is 1 to 1000, rank a whole number; nothing was changed')
end
redis.call('HLEN', unacked)
local number = redis.call('ZCOUNT', unacked_index, '-inf', '(' .. string.format('%.3f', (now_ms - visibility_ms) / 1000))
local plan, next_ms = {}, -1
local reached = each_held(rank, math.max(rank, math.min(number, rank + 200)) - 1, 1048576, function(text, held_queue, place, _, tag)
  local message, priority
  if held_queue == name and place == 'late' then message, priority = given_back(text) end
  if message then plan[#plan + 1] = {tag, message, lists[list_of(priority)][1]} end
  return #plan < limit
end, 4194304)
local following = redis.call('ZRANGE', unacked_index, number, number, 'WITHSCORES')[2]
if following then next_ms = math.max(0, math.floor(following * 1000) + visibility_ms - now_ms) end
local is_over = reached >= number
rank = is_over and 0 or reached - #plan
if #plan == 0 then return {'empty', next_ms, is_over and 0 or 1, rank} end

redis.call('LTRIM', queue, 0, -1) -- frees nothing: a drain may go on over maxmemory
for i = #plan, 1, -1 do
  local tag, message, list = unpack(plan[i])
  redis.call('RPUSH', list, message)
  redis.call('ZREM', unacked_index, tag)
  redis.call('HDEL', unacked, tag)
end
return {'moved', #plan, #plan, 0, next_ms, is_over and 0 or 1, rank}
