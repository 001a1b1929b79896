-- Ack items that a worker holds; their locks are removed.
--
-- The token is what the lock says. The original's locks say nothing: with an empty token an item is acked whose lock is
-- empty or gone. A lock that says something else, or a token whose lock is gone, means that the lease is over.
--
-- moves    in_progress -> done
-- derived  <id>-lock  behind the prefix: somebody works on the item
-- KEYS     todos        set   items to do
--          in_progress  set   items that somebody works on
--          done         set   items that are done
-- ARGV     prefix       str   before the names of locks
--          each         (member bytes, token? bytes)
-- returns each  moved       acked
--               done        it was acked before
--               stale       the lease is over; somebody else may work on it
--               gone        no such item
--               wrong_type  the name of its lock is another program's key
local todos, in_progress, done = KEYS[1], KEYS[2], KEYS[3]
local prefix = ARGV[1]
for _, key in ipairs(KEYS) do redis.call('SCARD', key) end
if #ARGV < 3 or #ARGV > 2001 or #ARGV % 2 == 0 then
  return redis.error_reply('ERR a batch has 1 to 1000 rows of member and token; nothing was changed')
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
for at = 2, #ARGV, 2 do
  local item, token = ARGV[at], ARGV[at + 1]
  local lock_ms, lock = lock_of(item)
  local word = 'moved'
  if left[item] or redis.call('SISMEMBER', in_progress, item) == 0 then
    local was_done = left[item] or redis.call('SISMEMBER', done, item) == 1
    word = was_done and 'done' or redis.call('SISMEMBER', todos, item) == 1 and 'stale' or 'gone'
  elseif lock_ms == -3 then
    word = 'wrong_type'
  elseif lock ~= token then
    word = 'stale'
  else
    left[item], left[#left + 1] = true, item
  end
  words[#words + 1] = word
end

for i = 1, #left do
  redis.call('SMOVE', in_progress, done, left[i])
  redis.pcall('DEL', prefix .. left[i] .. '-lock') -- one that stays runs out by itself
end
return words
