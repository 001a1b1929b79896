-- Find items that the programs of this system handle wrongly, among up to 300 members of each set.
--
-- derived  <id>-lock  behind the prefix: a worker holds the item
-- KEYS     todos in_progress done
-- ARGV     items        str   what items may be: integer, text, or auto
--          prefix       str   in front of the names of locks
-- returns  looked  (looked int) rows (kind str, key str, id bytes, number int)
-- include: keys, args
if #ARGV < 2 then return redis.error_reply('ERR it takes 2 arguments') end
local rows, row_of, looked, integers = {}, {}, 0, 0
local function report(kind, key, item)
  local at = row_of[kind .. ' ' .. key] or #rows + 1
  row_of[kind .. ' ' .. key] = at
  rows[at] = rows[at] or {kind, key, item, 0}
  rows[at][4] = rows[at][4] + 1
end
local function is_integer(item) return item == '0' or string.find(item, '^%-?[1-9]%d*$') ~= nil end
local function is_misread(item) -- another notation of a number that Python's int() accepts
  local digits = string.match(item, '^%s*[+-]?(%d[%d_]*)%s*$')
  return digits ~= nil and not string.find(digits, '__', 1, true) and string.sub(digits, -1) ~= '_'
end
local texts = {}
for _, key in ipairs({todos, in_progress, done}) do
  for _, whole in ipairs(redis.call('SRANDMEMBER', key, 300)) do
    local item = string.sub(whole, 1, 4096)
    looked = looked + 1
    if #whole >= 1048576 then report('oversized', key, string.sub(whole, 1, 60)) end
    if is_integer(item) then integers = integers + 1 else texts[#texts + 1] = {key, item} end
    local lock = prefix .. whole .. '-lock'
    local has_lock = redis.call('EXISTS', lock) == 1
    if has_lock and type(redis.pcall('GET', lock)) ~= 'string' then
      report('wrong_type', string.sub(lock, 1, 4096), item)
    elseif key == in_progress and not has_lock then
      report('lost_lock', key, item)
    elseif key ~= in_progress and has_lock and redis.call('SISMEMBER', in_progress, whole) == 0 then
      report('shared_lock', key, item)
    end
    for _, other in ipairs({in_progress, done}) do
      if other ~= key and key ~= done and redis.call('SISMEMBER', other, whole) == 1 then report('two_places', other, item) end
    end
  end
end
if items == 'integer' or (items == 'auto' and integers > 0) then
  for _, text in ipairs(texts) do report(is_misread(text[2]) and 'never_moved' or 'undecodable', text[1], text[2]) end
end
return {'looked', looked, rows}
