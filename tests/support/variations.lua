-- Run a script once for each variation, and reply with all that it did.
--
-- tests/support/variations.py puts in front of this file: steady_redis.lua; copies, with the name, lifetime (ms) and DUMP
-- value of each key; and act(redis, KEYS, ARGV), which is the script.
--
-- ARGV: 1 if the script replies with a word for each row; the keys, with their number in front; then of each variation
-- its arguments, with their number in front, and its commands, with their number in front. These change the database
-- before the run; each has the number of its outcomes in front.
-- The reply has four values for each variation: the outcomes of the script's reply, a text of that reply, a text of the keys
-- that the script changed and of the messages that it published, and the names of its write commands, in the order of the alphabet.
local function text(value)
  if type(value) == 'string' and (#value > 16 or string.find(value, '[.e]')) and string.find(value, '^%-?%d+%.?%d*e?%+?%d*$') then
    return string.format('%.15g', tonumber(value)) -- servers write scores with other digits
  end
  if type(value) ~= 'table' then return tostring(value) end
  if value.err or value.ok then return value.err or value.ok end
  local parts = {}
  for i, part in ipairs(value) do parts[i] = text(part) end
  return #parts .. '[' .. table.concat(parts, '\0') .. ']'
end
local function content(key)
  local kind, value = redis.call('TYPE', key).ok, ''
  if kind == 'none' then return kind end
  if kind == 'string' then value = redis.call('GET', key)
  elseif kind == 'list' then value = redis.call('LRANGE', key, 0, -1)
  elseif kind == 'set' then value = in_order(redis.call('SMEMBERS', key), 1)
  elseif kind == 'hash' then value = in_order(redis.call('HGETALL', key), 2)
  elseif kind == 'zset' then value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  else -- the ids of a stream are the server's time
    value = {}
    for i, entry in ipairs(redis.call('XRANGE', key, '-', '+')) do value[i] = entry[2] end
  end
  return kind .. ' ' .. in_steps(redis.call('PTTL', key), 10000) .. ' ' .. text(value)
end
local function word(reply)
  local first = type(reply) == 'table' and reply[1] or reply
  return type(first) == 'string' and first or text(first)
end

redis.call('FLUSHALL')
local copy_of, was = {}, {}
for _, copy in ipairs(copies) do
  redis.call('RESTORE', copy[1], copy[2], copy[3])
  copy_of[copy[1]] = copy
end
local at, found, has_word_for_each_row = 2, {}, ARGV[1] == '1'
local function take()
  local outcomes = {unpack(ARGV, at + 1, at + tonumber(ARGV[at]))}
  at = at + #outcomes + 1
  return outcomes
end
local keys = take()
local seen = {call = steady(redis.call), pcall = steady(redis.pcall)}
setmetatable(seen, {__index = redis})
while at <= #ARGV do
  local argv = {}
  local number = tonumber(ARGV[at])
  for i = 1, number do argv[i] = ARGV[at + i] end
  at = at + number + 2
  local before, edited = {}, {}
  for _ = 1, tonumber(ARGV[at - 1]) do
    local edit = take()
    redis.call(unpack(edit))
    edited[edit[2]] = true
  end
  for key in pairs(edited) do before[key] = content(key) end
  dirty, published, writes = {}, {}, {}
  local ended, reply = pcall(act, seen, {unpack(keys)}, argv)
  if not ended then reply = {err = text(reply)} end
  local outcomes = {}
  if type(reply) == 'table' and reply.err then outcomes[1] = ended and 'refused' or 'raised'
  else
    for _, one in ipairs(has_word_for_each_row and reply or {reply}) do outcomes[#outcomes + 1] = word(one) end
  end
  table.sort(writes) -- `pairs` takes a table in another order on another server
  local changed = {}
  for key in pairs(dirty) do
    local is = content(key)
    if not before[key] then
      if not was[key] and copy_of[key] then
        redis.call('RESTORE', copy_of[key][1], copy_of[key][2], copy_of[key][3], 'REPLACE')
        was[key] = content(key)
      end
      before[key] = was[key] or 'none'
    end
    if is ~= before[key] then changed[#changed + 1] = key .. ' ' .. is end
    edited[key] = true
  end
  table.sort(changed)
  for key in pairs(edited) do
    redis.call('DEL', key)
    if copy_of[key] then redis.call('RESTORE', copy_of[key][1], copy_of[key][2], copy_of[key][3]) end
  end
  found[#found + 1] = {outcomes, type(reply) == 'table' and reply.err or text(reply), table.concat(changed, '\n') .. text(published), table.concat(writes, ' ')}
end
return found
