-- All about one job, by its bytes, or by its id; with its result, where that is kept.
--
-- A job is asked for by its bytes as a page has them, `head`, `size` and `tail` (`size` 0: nobody knows them), or by its `id`. Without a
-- `place` it is sought under its `field`, among the first and the last 150 that workers hold, and by its bytes, all of them, in the first
-- and last 50 000 of each list. With `queue` as the place it is sought by its id among 1000 messages of each list, or those that make a
-- megabyte, from the next one on; with an `offset` below 0 from the other end. `result` is what its backend keeps of it, empty for
-- nothing; the answer `ended` is for a job of which only that is left.
--
-- derived  <queue><sep><step>                   the list of another priority
--          <prefix>_kombu.binding.<exchange>    which queue a routing key means
--          <prefix>celery-task-meta-<id>        what became of a job, where results have the same prefix
--          celery-task-meta-<id>                the same, where they have none
-- KEYS     queue                       list  messages of priority 0, the last one is next
--          unacked (eta late)          hash  tag to [message, exchange, routing key]
--          unacked_index               zset  tag by when it was taken (s)
-- ARGV     now_ms?     int    a test's clock; the server's when empty
--          prefix      str    before all keys, or nothing
--          sep         str    what parts a queue from its priority
--          steps       str    the priorities that have a list: 0/3/6/9
--          visibility  int    after so many seconds kombu gives out again what a worker holds
--          id          bytes  its id
--          head        bytes  its bytes, or the first of them
--          size        int    how many it has; 0: nobody knows
--          tail        bytes  its last bytes
--          body_bytes  int    up to so many it comes whole, or up to 4096; -1: always
--          place?      str    queue, or nothing
--          offset?     int    below 0: from the other end
--          field?      bytes  its tag, where it stood in the hash
-- returns  found  (now_ms int, place str, head bytes, size int, tail bytes, score str, tag bytes, step str, result bytes)
--          ended  (result bytes)
--          gone   no such job
local queue, unacked, unacked_index = KEYS[1], KEYS[2], KEYS[3]
for _, at in ipairs({8, 10, 12}) do
  if #ARGV < 13 or #ARGV[at] > 15 or not string.find(ARGV[at], at < 12 and '^%-?%d+$' or '^%-?%d*$') then
    return redis.error_reply('ERR it takes 13 arguments, whole numbers where the header says int; nothing was changed')
  end
end
local id, head, size, tail, body_bytes = ARGV[6], ARGV[7], tonumber(ARGV[8]), ARGV[9], tonumber(ARGV[10])
local place, offset, field = ARGV[11], tonumber(ARGV[12]) or 0, ARGV[13]
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
local start = (prefix == '' or string.find(prefix, '[:_.-]$')) and prefix or prefix .. '_' -- celery/backends/base.py 5.7
local function result_of(own)
  for _, before in ipairs({start, ''}) do
    local text = own ~= '' and redis.pcall('GETRANGE', before .. 'celery-task-meta-' .. own, 0, 262143)
    if type(text) == 'string' and text ~= '' then return text end
  end
  return ''
end
local quoted, spaced = '"id":"' .. id .. '"', '"id": "' .. id .. '"'
local function fits(text)
  if size > 0 and #text == size and string.sub(text, 1, #head) == head and string.sub(text, -#tail) == tail then return true end
  local at = id ~= '' and string.find(text, id, math.max(1, #text - 20000), true) -- which is cheaper than to look for quotes
  return at and (string.find(text, quoted, math.max(1, at - 6), true) or string.find(text, spaced, math.max(1, at - 7), true)) and true or false
end
local function found(where, text, score, tag, step)
  local row = job_row(text, score, tag, step)
  row[7] = result_of(id ~= '' and id or string.match(string.sub(text, -20000), '"id": ?"([^"\\]*)"') or '')
  return {'found', now_ms, where, unpack(row)}
end
if place == 'queue' then
  for _, list in ipairs(lists) do
    local length = redis.call('LLEN', list[1])
    local spent = 0
    for from = 0, math.min(length, 1000) - 1, 20 do -- a few at a time: they may be long
      local texts = offset < 0 and redis.call('LRANGE', list[1], from, from + 19) or redis.call('LRANGE', list[1], -from - 20, -from - 1)
      for _, text in ipairs(texts) do
        spent = spent + #text
        if fits(text) then return found('queue', text, '', '', list[2]) end
      end
      if spent > 1048576 then break end
    end
  end
  return {'gone'}
end
if place ~= '' then return redis.error_reply('ERR there is no place ' .. place .. ' to look for it alone') end
local card, answer = redis.call('ZCARD', unacked_index), nil
local rank = field ~= '' and redis.call('ZRANK', unacked_index, field) or 0
for _, stretch in ipairs({{rank, rank}, {0, math.min(card, 150) - 1}, {math.max(150, card - 150), card - 1}}) do
  each_held(stretch[1], stretch[2], math.huge, function(text, held_queue, where, score, tag)
    if held_queue == name and fits(text) then
      answer = found(where, text, score, tag, '')
      return false
    end
  end, 1048576)
  if answer then return answer end
end
for _, list in ipairs(size > 0 and #head >= size and lists or {}) do
  if redis.call('LPOS', list[1], head, 'RANK', -1, 'MAXLEN', 50000) or redis.call('LPOS', list[1], head, 'MAXLEN', 50000) then
    return found('queue', head, '', '', list[2])
  end
end
local result = result_of(id)
return result ~= '' and {'ended', result} or {'gone'}
