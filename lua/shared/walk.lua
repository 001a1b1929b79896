-- Walk over the keys of the database, one bounded step per call, and return the keys that match a pattern.
--
-- A step reads about `limit` keys. All patterns are tested in the same walk, so the discovery of all systems costs one walk. For the
-- last `counted` patterns, only the number of matching keys and the first of them are returned.
--
-- ARGV     cursor    str    0 begins a walk
--          limit     int    keys to read, roughly
--          counted?  int    the number of patterns, at the end, whose keys are only counted
--          each (pattern str)  a Lua pattern, `^rqtui:{.*}:meta$`
-- returns  walked  (cursor str, looked int, counts str)  rows (number int, key bytes)  the cursor of the next step, 0 at the end; the number of keys read; the counts, as `12 0 3`; each key with the number of its pattern
local cursor, limit, counted = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]) or 0
if string.find(cursor, '%D') or cursor == '' or not limit or limit < 1 or limit > 10000 then
  return redis.error_reply('ERR cursor is a whole number, limit is 1 to 10000')
end
local byte, find = string.byte, string.find
local found, counts, named = {}, {}, #ARGV - counted
-- Most keys match nothing. A pattern is tested only on keys that begin with its first two letters, or end with its last.
local by_head, by_tail, always = {}, {}, {}
local function put(list, number)
  list[#list + 1] = number
  return list
end
for number = 4, #ARGV do
  local pattern = ARGV[number]
  if number > named then counts[number - named] = 0 end
  if find(pattern, '^%^[%w_][%w_]') and not find(pattern, '^[*?-]', 4) then
    local first, second = byte(pattern, 2, 3)
    by_head[first * 256 + second] = put(by_head[first * 256 + second] or {}, number)
  elseif find(pattern, '^[%w_:]+%$$') then
    by_tail[byte(pattern, -2)] = put(by_tail[byte(pattern, -2)] or {}, number)
  else
    put(always, number)
  end
end
local function try(key, numbers)
  for at = 1, #numbers do
    local number = numbers[at]
    if find(key, ARGV[number]) then
      local count = counts[number - named]
      if count then counts[number - named] = count + 1 end
      if not count or count == 0 then found[#found + 1] = {number - 3, key} end
    end
  end
end
local reply = redis.call('SCAN', cursor, 'COUNT', limit)
local keys, is_any = reply[2], #always > 0
for at = 1, #keys do
  local key = keys[at]
  local first, second = byte(key, 1, 2)
  local numbers = second and by_head[first * 256 + second]
  if numbers then try(key, numbers) end
  numbers = by_tail[byte(key, -1)]
  if numbers then try(key, numbers) end
  if is_any then try(key, always) end
end
return {'walked', reply[1], #keys, table.concat(counts, ' '), found}
