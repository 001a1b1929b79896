-- Return where messages are and their bytes, so that a change of them can be undone.
--
-- A message is identified by its bytes: those that were read (`member`), or those that a verb wrote in their place (`new`). `line`
-- is the current message; with `whole` it is in `body` instead. The score of a waiting message is the index of its list × 2^40 plus
-- the number of messages that run before it. An unacked message is found by its delivery tag (`token`), which is its `record`. Once
-- the reply has `most` bytes, the remaining rows get the reply `later`.
--
-- derived  <prefix><queue><sep><step>  the list of another priority
-- KEYS     queue unacked unacked_index
-- ARGV     queue   str   the name of the queue
--          prefix  str   the prefix of all keys; may be empty
--          sep     str   the separator between the name of a queue and a priority
--          steps   str   the priorities that have a list of their own: 0/3/6/9
--          whole?  bool  return the message as a body
--          most    int   the largest size of a reply in bytes; a single job may be larger
--          each    (member bytes, new? bytes, token? str, step? str)
-- returns each  here   (place str, score str, record bytes, body bytes, line bytes, errors bytes)  the place and the bytes of the message
--               later  the reply is full: request this row again
--               gone   the message is no longer there
-- include: keys, args(whole most), columns, options, batch, queue_guard, key_types(unacked unacked_index), find_spot
if #ARGV[6] > 15 or not string.find(ARGV[6], '^%d+$') then return redis.error_reply('ERR most is a whole number') end
local outcomes, bytes = {}, 0
for at = scalars + 1, #ARGV, columns do
  local current, new, token, step = unpack(ARGV, at, at + 3)
  if bytes >= most and #outcomes > 0 then
    outcomes[#outcomes + 1] = 'later'
  else
    local place, score
    if token ~= '' then
      score = redis.call('HGET', unacked, token) == current and redis.call('ZSCORE', unacked_index, token)
      place = score and 'late'
    else
      local spot = find_spot(current, step)
      if not spot and new ~= '' then
        current = new
        spot = find_spot(current, '')
      end
      place = spot and 'queue'
      score = spot and string.format('%.0f', spot[1] * 2 ^ 40 + lengths[spot[1]] - 1 - spot[2])
    end
    outcomes[#outcomes + 1] = place and {'here', place, score, token, whole and current or '', whole and '' or current, ''} or 'gone'
    bytes = bytes + (place and #current or 0)
  end
end
return outcomes
