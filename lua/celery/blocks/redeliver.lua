-- Build the message that kombu's consumers deliver again (kombu/transport/redis.py 5.7, `_do_restore_message`).
--
-- `redelivered` becomes true in its headers and in its delivery_info. The block cuts the text at these fields and keeps all other
-- bytes; it encodes nothing.
--
-- gives    redeliver  returns the message of an entry of `unacked`, and its priority; nil if it has no delivery_info
local function find_string_end(text, at)
  while true do
    at = string.find(text, '["\\]', at + 1)
    if not at or string.byte(text, at) == 34 then return at end
    at = at + 1
  end
end
local function find_value_end(text, at) -- the index of the last byte of the JSON value that begins at `at`
  local depth = 0
  while at do
    local byte = string.byte(text, at)
    if byte == 34 then
      at = find_string_end(text, at)
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
local function find_field(object, wanted) -- the first and the last byte of the value; of a repeated name the last one
  local from, to
  local at = string.match(object, '^{%s*()"')
  while at do
    local close = find_string_end(object, at)
    local value = close and string.match(object, '^%s*:%s*()%S', close + 1)
    local stop = value and find_value_end(object, value)
    if not stop then return end
    if string.sub(object, at + 1, close - 1) == wanted then from, to = value, stop end
    at = string.match(object, '^%s*,%s*()"', stop + 1)
  end
  return from, to
end
local function set_field(object, wanted, value)
  local from, to = find_field(object, wanted)
  if from then return string.sub(object, 1, from - 1) .. value .. string.sub(object, to + 1) end
  local is_empty = string.find(object, '^{%s*}$')
  return string.sub(object, 1, -2) .. (is_empty and '"' or ', "') .. wanted .. '": ' .. value .. '}'
end
local function get_object(object, wanted)
  local from, to = find_field(object, wanted)
  return from and string.byte(object, from) == 123 and string.sub(object, from, to) or nil
end
local function redeliver(entry)
  local from = string.match(entry, '^%s*%[%s*(){')
  local to = from and find_value_end(entry, from)
  local message = to and string.sub(entry, from, to)
  local properties, headers = message and get_object(message, 'properties'), message and get_object(message, 'headers')
  local info = properties and get_object(properties, 'delivery_info')
  if not info then return end
  local at, stop = find_field(properties, 'priority')
  local priority = at and tonumber((string.gsub(string.sub(properties, at, stop), '"', ''))) or 0
  message = set_field(message, 'properties', set_field(properties, 'delivery_info', set_field(info, 'redelivered', 'true')))
  if headers then message = set_field(message, 'headers', set_field(headers, 'redelivered', 'true')) end
  return message, math.max(0, math.min(9, math.floor(priority)))
end
