-- Delete items from the sets that hold them.
--
-- An item in progress with a lock needs force. With a token, the lock must have that text. The lock is deleted too, so the ack
-- of the worker is refused.
--
-- moves    todos in_progress done ->
-- derived  <id>-lock  behind the prefix: a worker holds the item
-- KEYS     todos in_progress done
-- ARGV     place?       str   only from this place; from any place when empty
--          force?       bool  even if a worker holds it
--          prefix       str   in front of the names of locks
--          each         (member bytes, token? bytes)
-- returns each  moved        (place str)  deleted
--               reserved     a worker holds it; force it
--               stale        another worker holds it now
--               wrong_place  (place str)  it is somewhere else
--               gone         no such item
--               wrong_type   the name of its lock is another program's key
-- include: keys, args, key_types
local places = {todos = todos, in_progress = in_progress, done = done}
if #ARGV < 5 or #ARGV > 2003 or #ARGV % 2 == 0 or (place ~= '' and not places[place]) then
  return redis.error_reply('ERR place is todos, in_progress, done or empty, a batch has 1 to 1000 rows of member and token; nothing was changed')
end
-- include: read_lock
local outcomes, left = {}, {}
for at = 4, #ARGV, 2 do
  local item, token, found = ARGV[at], ARGV[at + 1], nil
  for _, name in ipairs({'done', 'todos', 'in_progress', place}) do -- the requested place, else the last of these that has the item
    if places[name] and redis.call('SISMEMBER', places[name], item) == 1 then found = name end
  end
  local lock_ms, lock = -2, ''
  if found == 'in_progress' then lock_ms, lock = read_lock(item) end
  if not found or left[item] then
    outcomes[#outcomes + 1] = 'gone'
  elseif place ~= '' and found ~= place then
    outcomes[#outcomes + 1] = {'wrong_place', found}
  elseif lock_ms == -3 then
    outcomes[#outcomes + 1] = 'wrong_type'
  elseif lock_ms ~= -2 and not force then
    outcomes[#outcomes + 1] = 'reserved'
  elseif token ~= '' and lock ~= token and found == 'in_progress' then
    outcomes[#outcomes + 1] = 'stale'
  else
    outcomes[#outcomes + 1], left[item], left[#left + 1] = {'moved', found}, found, item
  end
end

for _, item in ipairs(left) do
  redis.call('SREM', places[left[item]], item)
  if left[item] == 'in_progress' then redis.pcall('DEL', prefix .. item .. '-lock') end -- a lock that stays expires by itself
end
return outcomes
