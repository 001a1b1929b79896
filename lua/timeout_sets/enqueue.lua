-- Enqueue items to do.
--
-- One that stands in any of the three sets is not added: the original's creator would make it run again, or twice at once.
-- Its workers end at an item that is no whole number, and never move one that is not as `int()` writes it. With `items` auto
-- such ones are refused where the sets hold whole numbers only, as far as about 100 members tell.
--
-- moves    -> todos
-- KEYS     todos        set   items to do
--          in_progress  set   items that somebody works on
--          done         set   items that are done
-- ARGV     items        str   what items may be: integer, text, or auto
--          each         (body bytes)
-- returns each  moved    enqueued
--               exists   it is to do or in progress already
--               done     it was done before; requeue runs it again
--               refused  no whole number, as the others are: the original's workers would end at it, or never move it
local todos, in_progress, done = KEYS[1], KEYS[2], KEYS[3]
local items = ARGV[1]
for _, key in ipairs(KEYS) do redis.call('SCARD', key) end
if #ARGV < 2 or #ARGV > 1001 or not ({auto = 1, integer = 1, text = 1})[items] then
  return redis.error_reply('ERR a batch has 1 to 1000 items, and items is auto, integer or text; nothing was changed')
end
local function is_integer(item) return item == '0' or string.find(item, '^%-?[1-9]%d*$') ~= nil end
local must_be_integer = items == 'integer'
if items == 'auto' then
  local sampled = 0
  must_be_integer = true
  for _, key in ipairs(KEYS) do
    for _, item in ipairs(redis.call('SRANDMEMBER', key, 33)) do
      sampled, must_be_integer = sampled + 1, must_be_integer and is_integer(item)
    end
  end
  must_be_integer = must_be_integer and sampled > 0
end
local words, added, seen = {}, {}, {}
for at = 2, #ARGV do
  local item = ARGV[at]
  local word = 'moved'
  if must_be_integer and not is_integer(item) then
    word = 'refused'
  elseif seen[item] or redis.call('SISMEMBER', todos, item) == 1 or redis.call('SISMEMBER', in_progress, item) == 1 then
    word = 'exists'
  elseif redis.call('SISMEMBER', done, item) == 1 then
    word = 'done'
  else
    seen[item], added[#added + 1] = true, item
  end
  words[#words + 1] = word
end

if #added > 0 then redis.call('SADD', todos, unpack(added)) end
return words
