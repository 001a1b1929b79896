-- Decode JSON that should be an object or a list. The result is nil for anything else.
--
-- gives    decode
local function decode(text)
  local is_json, value = pcall(cjson.decode, text)
  return is_json and type(value) == 'table' and value or nil
end
