-- Add rows to the table of `show`. A value is cut at `long` bytes.
--
-- needs    rows long
--          job  the key of the job's hash
-- gives    add add_field
local function add(kind, of, name, value)
  rows[#rows + 1] = {kind, of, name, #value <= long and value or string.sub(value, 1, long)}
end
local function add_field(name, length, is_listed) -- a long field gives its length only
  if length > long then
    add('long', '', name, tostring(length))
  elseif is_listed then
    add('field', '', name, redis.call('HGET', job, name))
  end
end
