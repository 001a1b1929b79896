-- A look at keys of which another program may have taken one: dearer only where one has.
--
-- needs    read
-- gives    tolerant
--          call  for the reads of the look
-- include: read
local call = redis.call
local function tolerant(look, ...) -- what stands under a key of another type reads as nil
  local is_told, told = pcall(look, ...)
  if is_told then return told end
  if string.find(tostring(type(told) == 'table' and told.err or told), 'WRONGTYPE', 1, true) then call = read end
  told = look(...)
  call = redis.call
  return told
end
