-- Restore deleted messages with the bytes and scores that `records` returned.
--
-- A waiting message returns to its list, behind the same number of messages as before. Redis searches for that position. If the
-- length of the list times the number of rows is above a million, the message becomes the next one instead.
--
-- moves    -> queue | late
-- writes   unacked_index
-- derived  <prefix><queue><sep><step>  the list of another priority
-- KEYS     queue unacked unacked_index
-- ARGV     queue   str  the name of the queue
--          prefix  str  the prefix of all keys; may be empty
--          sep     str  the separator between the name of a queue and a priority
--          steps   str  the priorities that have a list of their own: 0/3/6/9
--          each    (place str, score str, record? str, body bytes)
-- returns each  moved   (place str)  restored
--               exists  a worker holds the message again
-- include: keys, columns, options, batch, queue_guard, key_types(unacked unacked_index), insert_at
local outcomes, waiting, held = {}, {}, {}
for at = scalars + 1, #ARGV, columns do
  local place, score, record, body = unpack(ARGV, at, at + 3)
  local i, before = parse_score(score)
  local is_late = place == 'late' and record ~= '' and string.find(score, '^[%d.]+$') and tonumber(score)
  if body == '' or not is_late and not (place == 'queue' and i) then
    return redis.error_reply('ERR row ' .. (at - scalars - 1) / columns + 1 .. ' does not say what stood where; nothing was changed')
  end
  local is_held = is_late and redis.call('HEXISTS', unacked, record) == 1
  outcomes[#outcomes + 1] = is_held and 'exists' or {'moved', place}
  if is_late and not is_held then held[#held + 1] = {record, score, body} end
  if not is_late then waiting[#waiting + 1] = {i, before, body} end
end
table.sort(waiting, function(a, b) return a[1] == b[1] and a[2] < b[2] or a[1] < b[1] end) -- each position counts the messages before it

for _, row in ipairs(held) do
  redis.call('HSET', unacked, row[1], row[3])
  redis.call('ZADD', unacked_index, row[2], row[1])
end
for _, row in ipairs(waiting) do insert_at(unpack(row)) end
return outcomes
