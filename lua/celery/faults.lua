-- Find what goes wrong around a queue of Celery: tasks that will run twice, what nobody acks, messages that stop workers, replies that
-- nobody reads, names of other types.
--
-- At most the first and the last 60 that workers hold of all queues are looked at, 10 messages at each end of each list, and 50 replies.
-- What is about all queues is told of the one that speaks for all. `seconds` is how long it is so, or how long it lasts, `word` a type,
-- `until_ms` from when on nothing can be done.
--
-- derived  <queue><sep><step>                             the list of another priority
--          <prefix>_kombu.binding.<exchange>              which queue a routing key means
--          <prefix><reply>.reply.<control>.pidbox         the answers to somebody's command
-- KEYS     queue           list  messages of priority 0, the last one is next
--          unacked         hash  tag to [message, exchange, routing key]
--          unacked_index   zset  tag by when it was taken (s)
--          replies         set   names of the queues for answers
-- ARGV     now_ms?         int   a test's clock; the server's when empty
--          prefix          str   before all keys, or nothing
--          sep             str   what parts a queue from its priority
--          steps           str   the priorities that have a list: 0/3/6/9
--          visibility      int   after so many seconds kombu gives out again what a worker holds
--          speaks_for_all  bool  whether what is about all queues is told here
-- returns  looked  (looked int)
--                   rows (kind str, key str, id bytes, number int, word str, seconds int, since_ms? int, until_ms? int, name str)
local queue, unacked, unacked_index, replies = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local visibility, speaks_for_all = ARGV[5], ARGV[6] == '1'
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
-- block: celery_entry, celery_held
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
-- end
local looked, rows, row_at = 0, {}, {}
local function met(kind, key, id, number, word, seconds, since_ms, until_ms) -- the first of a kind and a key is the example
  local known = row_at[kind .. key]
  if known then
    rows[known][4] = rows[known][4] + number
  else
    local lasting = math.max(0, math.min(1e9, math.floor(seconds or 0)))
    rows[#rows + 1] = {kind, key, string.sub(id, 1, 1000), number, word or '', lasting, since_ms or '', until_ms or '', name}
    row_at[kind .. key] = #rows
  end
end
-- block: type_of
local function type_of(key) -- a table, or a string where Redis is played
  local found = redis.call('TYPE', key)
  return type(found) == 'table' and found.ok or found
end
-- end
local function id_of(text)
  return string.match(string.sub(text, -20000), '"id": ?"([^"\\]*)"') or ''
end

local is_fitting = {}
for at, each in ipairs({{unacked, 'hash'}, {unacked_index, 'zset'}, {replies, 'set'}}) do
  local kind = type_of(each[1])
  is_fitting[at] = kind == each[2]
  if kind ~= each[2] and kind ~= 'none' and speaks_for_all then met('wrong_type', each[1], '', 1, kind) end
end

local function judge(text, key)
  looked = looked + 1
  local ending = string.sub(text, -20000)
  local is_read, has_properties = string.find(text, '^%s*{') and string.find(ending, '}%s*$'), string.find(ending, '"properties":', 1, true)
  if #text <= 8192 then -- a longer one by its two ends
    local is_json, told = pcall(cjson.decode, text)
    is_read = is_json and type(told) == 'table' and told[1] == nil
    has_properties = is_read and type(told.properties) == 'table'
  end
  if not is_read then return met('poison_json', key, '', 1) end
  if not has_properties then return met('poison_properties', key, id_of(text), 1) end
  local eta = eta_ms(string.match(ending, '"eta": ?"([^"\\]+)"') or '')
  if eta - now_ms > visibility_ms then met('eta_beyond_visibility:queue', key, id_of(text), 1, '', visibility_ms / 1000) end
end
for _, list in ipairs(lists) do
  local key = list[1]
  local kind = type_of(key)
  if kind == 'list' then
    local length = redis.call('LLEN', key)
    for _, text in ipairs(redis.call('LRANGE', key, -10, -1)) do judge(text, key) end
    for _, text in ipairs(length > 10 and redis.call('LRANGE', key, 0, math.min(9, length - 11)) or {}) do judge(text, key) end
  elseif kind ~= 'none' then
    met('wrong_type', key, '', 1, kind)
  end
end

if is_fitting[1] and is_fitting[2] then
  local card = redis.call('ZCARD', unacked_index)
  for _, stretch in ipairs({{0, math.min(card, 60) - 1}, {math.max(60, card - 60), card - 1}}) do
    each_held(stretch[1], stretch[2], 16384, function(text, own, place, score, _, eta)
      looked = looked + 1
      if own ~= name then return end
      local taken_ms = math.floor((tonumber(score) or 0) * 1000)
      local restore_ms = taken_ms + visibility_ms
      if place == 'eta' and eta > restore_ms then
        met('eta_beyond_visibility', unacked, id_of(text), 1, '', (restore_ms - now_ms) / 1000, nil, restore_ms > now_ms and restore_ms or nil)
      elseif place == 'late' then
        met('abandoned', unacked, id_of(text), 1, '', (now_ms - taken_ms) / 1000, restore_ms)
      end
    end, 400000)
  end
end

if is_fitting[3] and speaks_for_all then
  local number, entries, example = 0, 0, nil
  local bindings = redis.call('SSCAN', replies, 0, 'COUNT', 50)[2]
  for at = 1, math.min(#bindings, 50) do
    local name_of = string.match(bindings[at], '([%w-]+%.reply%..+%.pidbox)$')
    local key = name_of and prefix .. name_of
    if key and type_of(key) == 'list' and redis.call('TTL', key) == -1 then
      number, entries, example = number + 1, entries + redis.call('LLEN', key), example or key
    end
  end
  if number > 0 then met('reply_lists', example, '', number, tostring(entries)) end
end
return {'looked', looked, rows}
