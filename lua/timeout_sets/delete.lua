-- Delete items from where they are.
--
-- One in progress whose lock still stands needs force, and then a token, if one is given, that is what the lock says; its
-- worker's ack is then refused, as the lock goes too.
--
-- moves    todos in_progress done ->
-- derived  <id>-lock  behind the prefix: somebody works on the item
-- KEYS     todos        set   items to do
--          in_progress  set   items that somebody works on
--          done         set   items that are done
-- ARGV     place?       str   only if it is still there; anywhere when empty
--          force?       bool  even when a worker holds it
--          prefix       str   before the names of locks
--          each         (member bytes, token? bytes)
-- returns each  moved        (place str)  deleted
--               reserved     a worker holds it; force it
--               stale        another worker holds it now
--               wrong_place  (place str)  it is somewhere else
--               gone         no such item
--               wrong_type   the name of its lock is another program's key
local todos, in_progress, done = KEYS[1], KEYS[2], KEYS[3]
local place, force, prefix = ARGV[1], ARGV[2] == '1', ARGV[3]
for _, key in ipairs(KEYS) do redis.call('SCARD', key) end
local places = {todos = todos, in_progress = in_progress, done = done}
if #ARGV < 5 or #ARGV > 2003 or #ARGV % 2 == 0 or (place ~= '' and not places[place]) then
  return redis.error_reply('ERR place is todos, in_progress, done or empty, a batch has 1 to 1000 rows of member and token; nothing was changed')
end
-- block: lock_of
local function lock_of(item) -- how long it lasts (-1 for ever, -2 there is none, -3 no lock but another key) and what it says
  local name = prefix .. item .. '-lock'
  local lasts_ms = redis.call('PTTL', name)
  local says = lasts_ms == -2 and '' or redis.pcall('GET', name)
  if type(says) ~= 'string' then return -3, '' end
  return lasts_ms, says
end
-- end
local words, left = {}, {}
for at = 4, #ARGV, 2 do
  local item, token, found = ARGV[at], ARGV[at + 1], nil
  for _, name in ipairs({'done', 'todos', 'in_progress', place}) do -- the place that was asked for, else the liveliest
    if places[name] and redis.call('SISMEMBER', places[name], item) == 1 then found = name end
  end
  local lock_ms, lock = -2, ''
  if found == 'in_progress' then lock_ms, lock = lock_of(item) end
  if not found or left[item] then
    words[#words + 1] = 'gone'
  elseif place ~= '' and found ~= place then
    words[#words + 1] = {'wrong_place', found}
  elseif lock_ms == -3 then
    words[#words + 1] = 'wrong_type'
  elseif lock_ms ~= -2 and not force then
    words[#words + 1] = 'reserved'
  elseif token ~= '' and lock ~= token and found == 'in_progress' then
    words[#words + 1] = 'stale'
  else
    words[#words + 1], left[item], left[#left + 1] = {'moved', found}, found, item
  end
end

for _, item in ipairs(left) do
  redis.call('SREM', places[left[item]], item)
  if left[item] == 'in_progress' then redis.pcall('DEL', prefix .. item .. '-lock') end -- one that stays runs out by itself
end
return words
