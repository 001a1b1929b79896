-- Read what a client must know of a message of Celery before it is pushed.
--
-- needs    find_list
-- gives    read_message  returns its id, the index of its list and its delivery tag; nil if the bytes are not a message
-- include: find_list
local function read_message(body)
  local is_json, message = pcall(cjson.decode, body)
  if not is_json or type(message) ~= 'table' or type(message.body) ~= 'string' then return end
  local headers, properties = message.headers, message.properties
  if type(headers) ~= 'table' or type(headers.task) ~= 'string' or type(headers.id) ~= 'string' then return end
  if type(properties) ~= 'table' or type(properties.delivery_tag) ~= 'string' or type(properties.delivery_info) ~= 'table' then return end
  return headers.id, find_list(math.max(0, math.min(9, tonumber(properties.priority) or 0))), properties.delivery_tag
end
