-- Celery: a message that is given out again, as kombu's own consumers do it (kombu/transport/redis.py 5.7, `_do_restore_message`):
-- `redelivered` is true in its headers and in its delivery_info. All other bytes stay: the text is cut there, and nothing is encoded.
-- gives    given_back  the message in an entry of `unacked`, and its priority; nil where it has no delivery_info
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
