-- Find dead and unknown consumers that hold jobs, and bodies that no consumer can read or that are large.
--
-- `number` is the number of jobs, and `id` is one of them: the first 60 bytes of a long job, and two quotes for an
-- empty one. For a consumer without heartbeats, `registration` says whether it is registered, and `heartbeat` what its last
-- heartbeat is. `verb` moves the jobs in `place` back, and `only` is the filter of rqtui that selects only this
-- consumer's jobs. At most 1000 entries are read.
--
-- derived  orizuru:consumers:<worker>:processing
--          orizuru:consumers:<worker>:unacked
--          orizuru:consumers:<worker>:heartbeat
-- KEYS     source consumers heartbeats
-- ARGV     now_ms?    int  a test's clock; the server's when empty
--          silent_ms  int  a consumer without a heartbeat for this long is dead
--          each       (worker bytes)  further consumers whose lists exist
-- returns  looked  (looked int)  rows (kind str, key str, id bytes, number int, worker str, silent_s int,
--                               registration str, heartbeat str, verb str, place str, only str)
-- include: keys
local argument_count, asked_from = 2, 3
-- include: silent_ms, consumers
table.sort(names)

-- The formats of MessagePack, by first byte: the bytes of data, of a length, and of a number of elements
local data = {[0xc0] = 0, [0xc2] = 0, [0xc3] = 0, [0xca] = 4, [0xcb] = 8, [0xcc] = 1, [0xcd] = 2, [0xce] = 4, [0xcf] = 8,
  [0xd0] = 1, [0xd1] = 2, [0xd2] = 4, [0xd3] = 8, [0xd4] = 2, [0xd5] = 3, [0xd6] = 5, [0xd7] = 9, [0xd8] = 17}
local lengths = {[0xc4] = 1, [0xc5] = 2, [0xc6] = 4, [0xc7] = 1, [0xc8] = 2, [0xc9] = 4, [0xd9] = 1, [0xda] = 2, [0xdb] = 4}
local numbers = {[0xdc] = 2, [0xdd] = 4, [0xde] = 2, [0xdf] = 4}
-- Return whether a body is one complete value. A body with more than 2000 elements counts as complete.
local function is_readable(body)
  local at, wanted, steps = 1, 1, 0
  local function number(width)
    local value = 0
    for i = at, at + width - 1 do value = value * 256 + (string.byte(body, i) or 0) end
    at = at + width
    return value
  end
  while wanted > 0 and steps < 2000 do
    local first = string.byte(body, at)
    if not first then return false end
    at, wanted, steps = at + 1, wanted - 1, steps + 1
    if first >= 0x80 and first <= 0x8f then wanted = wanted + 2 * (first - 0x80)
    elseif first >= 0x90 and first <= 0x9f then wanted = wanted + first - 0x90
    elseif first >= 0xa0 and first <= 0xbf then at = at + first - 0xa0
    elseif data[first] then at = at + data[first]
    elseif lengths[first] then
      local is_extension = first >= 0xc7 and first <= 0xc9
      at = number(lengths[first]) + at + (is_extension and 1 or 0)
    elseif numbers[first] then wanted = wanted + number(numbers[first]) * (first >= 0xde and 2 or 1)
    elseif first == 0xc1 then return false end
  end
  return wanted > 0 or at == #body + 1
end

local read, rows = 0, {}
local function report(kind, key, id, number, worker, silent_s, registration, heartbeat, verb, place)
  local only = verb and 'worker:/^(?-i:' .. string.gsub(worker, '[^%w_\128-\255-]', '\\%0') .. ')$/' or ''
  if #rows < 100 then
    rows[#rows + 1] = {kind, key, id, number, worker, silent_s or 0, registration or '', heartbeat or '', verb or '', place or '', only}
  end
end
local function shorten(body)
  if body == '' then return "''" end
  return #body <= 4096 and body or string.sub(body, 1, 60)
end
local function check_list(key, length, worker, most)
  local broken, large, example, largest = 0, 0, nil, nil
  for at = 1, math.min(length, most, 1000 - read) do
    local body = redis.call('LINDEX', key, -at)
    read = read + 1
    if not is_readable(body) then
      broken = broken + 1
      if not example or #example > 4096 and #body <= 4096 then example = body end
    end
    if #body >= 1048576 then
      large, largest = large + 1, largest or body
    end
  end
  if broken > 0 then report('undecodable', key, shorten(example), broken, worker) end
  if large > 0 then report('oversized', key, shorten(largest), large, worker) end
end
for _, name in ipairs(names) do
  local prefix = 'orizuru:consumers:' .. name
  local entry, lengths_of = redis.call('HGET', heartbeats, name), {}
  local beat = tonumber(string.match(entry or '', '^%d+$') or '')
  for i, place in ipairs({'processing', 'unacked'}) do
    local key = prefix .. ':' .. place
    local length = redis.pcall('LLEN', key)
    if type(length) ~= 'number' then
      report('wrong_type', key, '', 0, name)
      length = 0
    end
    lengths_of[i] = length
    check_list(key, length, name, 200)
  end
  local left_ms = redis.call('PTTL', prefix .. ':heartbeat')
  if left_ms == -2 and beat and now_ms - beat > silent_ms and lengths_of[1] > 0 then
    report('silent_consumer', prefix .. ':processing', '', lengths_of[1], name, math.floor((now_ms - beat) / 1000))
  end
  if not beat and left_ms == -2 then
    local is_registered = redis.call('SISMEMBER', consumers, name) == 1
    local registration = is_registered and 'registered' or 'not registered'
    local beat_text = entry and 'its last heartbeat is not a time' or 'it never sent a heartbeat'
    if lengths_of[1] > 0 then
      report('unknown_consumer', prefix .. ':processing', '', lengths_of[1], name, 0, registration, beat_text, 'release', 'processing')
    end
    if lengths_of[2] > 0 and not is_registered then
      report('unknown_consumer', prefix .. ':unacked', '', lengths_of[2], name, 0, registration, beat_text, 'requeue', 'unacked')
    end
  end
end
check_list(source, redis.call('LLEN', source), '', 500)
return {'looked', read, rows}
