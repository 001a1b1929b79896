-- Extend what workers hold: kombu gives it out again later.
--
-- Every consumer goes by the time since when a message is held, whatever its own timeout. That is set anew: so that `ttr_ms` are left, or to now;
-- of a task whose ETA is to come, not before that: it is not given out again before it is due. What a dead worker held waits as long.
--
-- writes   unacked_index
-- derived  <queue><sep><step>                 the list of another priority
--          <prefix>_kombu.binding.<exchange>  which queue a routing key means
-- KEYS     queue          list  messages of priority 0, the last one is next
--          unacked        hash  tag to [message, exchange, routing key]
--          unacked_index  zset  tag by when it was taken (s)
-- ARGV     queue       str   its name
--          prefix      str   before all keys, or nothing
--          sep         str   what parts a queue from its priority
--          steps       str   the priorities that have a list: 0/3/6/9
--          visibility  int   after so many seconds kombu gives out again what a worker holds
--          now_ms?     int   a test's clock; the server's when empty
--          ttr_ms?     int   how long from now; the visibility when empty
--          each        (member bytes, token str)  the bytes, and the tag
-- returns each  extended  (deadline_ms int)  extended
--               gone      no worker holds it any more
local queue, unacked, unacked_index = KEYS[1], KEYS[2], KEYS[3]
local scalars, columns = 7, 2
local visibility, ttr_ms = ARGV[5], tonumber(ARGV[7])
-- block: celery_options, celery_visibility, celery_batch, celery_of_queue, celery_now, celery_entry, celery_held_here
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
-- end
if #ARGV[7] > 13 or string.find(ARGV[7], '%D') then
  return redis.error_reply('ERR ttr_ms is a whole number; nothing was changed')
end
for _, list in ipairs(lists) do redis.call('LLEN', list[1]) end
local words, plan = {}, {}
for at = scalars + 1, #ARGV, columns do
  local member, token = ARGV[at], ARGV[at + 1]
  if held_here(token, member) then
    local _, eta = entry_of(member)
    local since_ms = math.max(now_ms + (ttr_ms or visibility_ms) - visibility_ms, eta)
    words[#words + 1] = {'extended', since_ms + visibility_ms}
    plan[#plan + 1] = {token, string.format('%.3f', since_ms / 1000)}
  else
    words[#words + 1] = 'gone'
  end
end
if #plan > 0 then redis.call('ZREM', unacked_index, '') end -- frees nothing: a drain may go on over maxmemory
for _, each in ipairs(plan) do redis.call('ZADD', unacked_index, 'XX', each[2], each[1]) end
return words
