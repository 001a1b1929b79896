-- Celery: what an entry of `unacked` tells, `[message, exchange, routing key]` in JSON (kombu/transport/redis.py 5.7, `QoS.append`).
-- Where its text does not tell it plainly it is decoded, unless it is longer than 1 MB.
-- needs    prefix
-- gives    entry_of
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
