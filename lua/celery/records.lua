-- Where some messages stand, byte for byte, so that a change of them can be undone.
--
-- A message is its bytes: those that were seen (`member`), or those that a verb put in their place (`new`). `line` is what stands there;
-- asked for `whole`, it is in `body` instead. The score of one that waits is the index of its list × 2^40, and how many run before it there.
-- One that a worker took is found by its tag (`token`), which is its `record`. Once the answer has `most` bytes, the rows that follow answer
-- `later`.
--
-- derived  <queue><sep><step>  the list of another priority
-- KEYS     queue           list  messages of priority 0, the last one is next
--          unacked (late)  hash  tag to [message, exchange, routing key]
--          unacked_index   zset  tag by when it was taken (s)
-- ARGV     queue   str   its name
--          prefix  str   before all keys, or nothing
--          sep     str   what parts a queue from its priority
--          steps   str   the priorities that have a list: 0/3/6/9
--          whole?  bool  as a body
--          most    int   bytes of one answer; a single job may have more
--          each    (member bytes, new? bytes, token? str, step? str)
-- returns each  here   (place str, score str, record bytes, body bytes, line bytes, errors bytes)  here it is
--               later  the answer is long enough; ask for it again
--               gone   no such job
local queue, unacked, unacked_index, whole, most = KEYS[1], KEYS[2], KEYS[3], ARGV[5] == '1', tonumber(ARGV[6])
local scalars, columns = 6, 4
-- block: celery_options, celery_batch, celery_of_queue, celery_lengths, celery_listed
if #ARGV < 4 or not string.find(ARGV[4], '^%d+[%d/]*$') then
  return redis.error_reply('ERR it takes a prefix, which may be empty, a separator, and priorities as 0/3/6/9; nothing was changed')
end
local prefix, lists = ARGV[2], {}
local name = string.sub(queue, #prefix + 1)
for step in string.gmatch(ARGV[4], '%d+') do -- kombu/transport/redis.py 5.7, `_q_for_pri`
  lists[#lists + 1] = {tonumber(step) == 0 and queue or queue .. ARGV[3] .. step, step}
end
local rows = (#ARGV - scalars) / columns
if rows < 1 or rows > 1000 or rows ~= math.floor(rows) then
  return redis.error_reply('ERR it takes 1 to 1000 rows, each with all of its columns; nothing was changed')
end
if ARGV[1] == '' or ARGV[1] ~= name then
  return redis.error_reply('ERR the list of a queue is the prefix and its name, which is the first argument; nothing was changed')
end
local lengths = {}
for i, list in ipairs(lists) do lengths[i] = redis.call('LLEN', list[1]) end
local reach, budget, taken, count, last = rows == 1 and 50000 or 5000, 200000, {}, {}, {}
local function spot_in(i, member)
  local list, length, own = lists[i][1], lengths[i], taken[i] or {}
  taken[i] = own
  local function take(at)
    own[at], last[i], count[member] = true, at, (count[member] or 0) + 1
    return at
  end
  for at = (last[i] or length) - 1, (last[i] or length) + 1, 2 do -- rows of a page stand side by side
    local from_end = at * 2 < length and at or at - length -- or the server walks there from the other end
    if at >= 0 and at < length and not own[at] and redis.call('LINDEX', list, from_end) == member then return take(at) end
  end
  for _, rank in ipairs({-1, 1}) do
    local part = math.min(reach, budget, length)
    local found = part > 0 and redis.call('LPOS', list, member, 'RANK', rank, 'COUNT', (count[member] or 0) + 1, 'MAXLEN', part) or {}
    for _, at in ipairs(found) do
      if not own[at] then
        budget = budget - (rank < 0 and length - at or at)
        return take(at)
      end
    end
    budget = budget - part
    if part == length then return nil, false end
  end
  return nil, length > 2 * reach or budget <= 0
end
local function next_spot(member, step)
  local is_unsure = false
  for turn = 1, 2 do
    for i, list in ipairs(lists) do
      if lengths[i] > 0 and (turn == 1) == (list[2] == step) then
        local at, may_stand = spot_in(i, member)
        if at then return {i, at, member} end
        is_unsure = is_unsure or may_stand
      end
    end
  end
  return nil, is_unsure
end
-- end
if #ARGV[6] > 15 or not string.find(ARGV[6], '^%d+$') then return redis.error_reply('ERR most is a whole number') end
redis.call('HLEN', unacked)
redis.call('ZCARD', unacked_index)
local words, bytes = {}, 0
for at = scalars + 1, #ARGV, columns do
  local stands, new, token, step = unpack(ARGV, at, at + 3)
  if bytes >= most and #words > 0 then
    words[#words + 1] = 'later'
  else
    local place, score
    if token ~= '' then
      score = redis.call('HGET', unacked, token) == stands and redis.call('ZSCORE', unacked_index, token)
      place = score and 'late'
    else
      local spot = next_spot(stands, step)
      if not spot and new ~= '' then
        stands = new
        spot = next_spot(stands, '')
      end
      place = spot and 'queue'
      score = spot and string.format('%.0f', spot[1] * 2 ^ 40 + lengths[spot[1]] - 1 - spot[2])
    end
    words[#words + 1] = place and {'here', place, score, token, whole and stands or '', whole and '' or stands, ''} or 'gone'
    bytes = bytes + (place and #stands or 0)
  end
end
return words
