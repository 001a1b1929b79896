-- Run a function that reads several keys through `call`. If a key has another type, the function runs again, and that key reads as nil.
--
-- needs    read
-- gives    tolerant
--          call  what the function uses instead of `redis.call`
-- include: read
local call = redis.call
local function tolerant(read_keys, ...)
  local is_done, result = pcall(read_keys, ...)
  if is_done then return result end
  if string.find(tostring(type(result) == 'table' and result.err or result), 'WRONGTYPE', 1, true) then call = read end
  result = read_keys(...)
  call = redis.call
  return result
end
