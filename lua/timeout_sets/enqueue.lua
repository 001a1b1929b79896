-- Enqueue items to do.
--
-- An item that is in one of the three sets is not added. The producer of the original adds it, and it runs twice. Workers of the
-- original stop at an item that is not a whole number, and never move a number that is not in the format of Python's `int()`. With
-- `items` auto such items are refused if a sample of about 100 members has whole numbers only.
--
-- moves    -> todos
-- KEYS     todos in_progress done
-- ARGV     items        str   what items may be: integer, text, or auto
--          each         (body bytes)
-- returns each  moved    enqueued
--               exists   it is to do or in progress already
--               done     it is done; requeue runs it again
--               refused  not a whole number, as the other items are: workers of the original would stop at it, or never move it
-- include: keys, args, key_types
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
local outcomes, added, seen = {}, {}, {}
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
  outcomes[#outcomes + 1] = word
end

if #added > 0 then redis.call('SADD', todos, unpack(added)) end
return outcomes
