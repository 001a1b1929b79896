-- Read an entry of `unacked`: `[message, exchange, routing key]` in JSON (kombu/transport/redis.py 5.7, `QoS.append`).
--
-- The queue and the ETA are searched in the text, which is faster than decoding it. If the search is ambiguous, the block decodes
-- entries of up to 1 MB.
--
-- needs    prefix
--          ARGV[3]  sep
-- gives    parse_time_ms  returns milliseconds since 1970; -1 if the text is not a time
--          read_entry     returns the queue, and the ETA in ms or -1; no queue if the entry cannot be read
local function parse_time_ms(text) -- such as 2026-11-22T21:44:12.311195+00:00
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
local function read_bindings(exchange) -- the first binding of each routing key, and those with a wildcard as patterns, sorted
  local reply, bindings = redis.pcall('SSCAN', prefix .. '_kombu.binding.' .. exchange, 0, 'COUNT', 1000), {exact = {}, patterns = {}}
  for _, binding in ipairs(reply.err and {} or reply[2]) do
    local first = string.find(binding, ARGV[3], 1, true)
    local last = first and string.find(binding, ARGV[3], first + #ARGV[3], true)
    local key = last and string.sub(binding, 1, first - 1)
    local row = key and {binding, string.sub(binding, last + #ARGV[3])}
    if row and string.find(key, '[*#]') then
      local pattern = string.gsub(string.gsub(string.gsub(key, '[^%w*#]', '%%%0'), '%*', '[^.]+'), '#', '.*')
      row[3] = '^' .. pattern .. '$'
      table.insert(bindings.patterns, row)
    elseif row and not (bindings.exact[key] and bindings.exact[key][1] < binding) then
      bindings.exact[key] = row
    end
  end
  table.sort(bindings.patterns, function(x, y) return x[1] < y[1] end)
  return bindings
end
local function find_queue(exchange, routing_key) -- as kombu selects it (kombu/transport/virtual/exchange.py)
  if exchange == '' then return routing_key end
  local cached = queues[exchange] or {}
  queues[exchange] = cached
  if cached[routing_key] then return cached[routing_key] end
  cached[routing_key] = routing_key -- most exchanges bind a queue of this name, and a table may be long
  local own_binding = routing_key .. ARGV[3] .. ARGV[3] .. routing_key
  if redis.pcall('SISMEMBER', prefix .. '_kombu.binding.' .. exchange, own_binding) ~= 1 then
    local bindings = tables[exchange] or read_bindings(exchange)
    tables[exchange] = bindings
    local best = bindings.exact[routing_key]
    for _, row in ipairs(bindings.patterns) do
      if best and best[1] < row[1] then break end
      if string.find(routing_key, row[3]) then best = row end
    end
    cached[routing_key] = best and best[2] or routing_key
  end
  return cached[routing_key]
end
local function read_entry(text)
  local length = #text
  -- `^.*` searches backwards from the end, which is faster
  local exchange, routing_key = string.match(text, '^.*, ?"([^"\\]*)", ?"([^"\\]*)"%]$', -700)
  local headers = string.find(text, '"headers":', -20000, true)
  local _, at = string.find(text, '"eta":', headers or length, true)
  local is_plain = exchange and headers and not (at and math.min(string.find(text, '{', headers + 13, true) or at, string.find(text, '[', headers + 13, true) or at) < at)
  if is_plain and (at or length <= 20000) then
    return find_queue(exchange, routing_key), at and parse_time_ms(string.match(text, '^ ?"([^"\\]+)"', at + 1) or '') or -1
  end
  local is_read, entry = pcall(cjson.decode, length <= 1048576 and text or '')
  if not is_read or type(entry) ~= 'table' or type(entry[3]) ~= 'string' then return exchange and find_queue(exchange, routing_key), -1 end
  local headers_read = type(entry[1]) == 'table' and entry[1].headers
  local eta = type(headers_read) == 'table' and headers_read.eta
  return find_queue(type(entry[2]) == 'string' and entry[2] or '', entry[3]), type(eta) == 'string' and parse_time_ms(eta) or -1
end
