-- Where some jobs stand, byte for byte, so that a change of them can be undone.
--
-- A job is its bytes: those that were seen (`member`), or those that a verb put in their place (`new`). `line` is what stands there;
-- asked for `whole`, it is in `body` instead. The score of a job in the queue is how many run before it. Once the answer has `most`
-- bytes, the rows that follow answer `later`.
--
-- KEYS     schedule  zset  jobs by due (s)
--          retry     zset  jobs by due (s)
--          queue     list  jobs, the next one last
--          dead      zset  jobs by when they died (s)
-- ARGV     queue     str   its name
--          whole?    bool  as a body
--          most      int   bytes of one answer; a single job may have more
--          each      (member bytes, new? bytes)
-- returns each  here   (place str, score str, record bytes, body bytes, line bytes, errors bytes)  here it is
--               later  the answer is long enough; ask for it again
--               gone   no such job
local schedule, retry, queue, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local scalars, columns = 3, 2
for _, key in ipairs({schedule, retry, dead}) do redis.call('ZCARD', key) end
-- block: sidekiq_batch, sidekiq_listed
local rows = (#ARGV - scalars) / columns
if rows < 1 or rows > 1000 or rows ~= math.floor(rows) then
  return redis.error_reply('ERR it takes 1 to 1000 rows, each with all of its columns; nothing was changed')
end
if ARGV[1] == '' or string.sub(queue, -#ARGV[1] - 6) ~= 'queue:' .. ARGV[1] then
  return redis.error_reply('ERR the list of a queue is queue:NAME, and the first argument is the name; nothing was changed')
end
local length = redis.call('LLEN', queue)
local reach, budget, taken, count, last = rows == 1 and 50000 or 5000, 200000, {}, {}, length
local function next_spot(member)
  for at = last - 1, last + 1, 2 do -- rows of a page stand side by side
    local from_end = at * 2 < length and at or at - length -- or the server walks there from the other end
    if at >= 0 and at < length and not taken[at] and redis.call('LINDEX', queue, from_end) == member then
      taken[at], last, count[member] = true, at, (count[member] or 0) + 1
      return at
    end
  end
  for _, rank in ipairs({-1, 1}) do
    local most = math.min(reach, budget, length)
    local found = most > 0 and redis.call('LPOS', queue, member, 'RANK', rank, 'COUNT', (count[member] or 0) + 1, 'MAXLEN', most) or {}
    for _, at in ipairs(found) do
      if not taken[at] then
        taken[at], last, count[member] = true, at, (count[member] or 0) + 1
        budget = budget - (rank < 0 and length - at or at)
        return at
      end
    end
    budget = budget - most
    if most == length then return nil, false end
  end
  return nil, length > 2 * reach or budget <= 0
end
-- end
local whole, most = ARGV[2] == '1', tonumber(ARGV[3])
if #ARGV[3] > 15 or not string.find(ARGV[3], '^%d+$') then return redis.error_reply('ERR most is a whole number') end
local zsets = {{'schedule', schedule}, {'retry', retry}, {'dead', dead}}
local function place_of(bytes, is_queued)
  for _, zset in ipairs(zsets) do
    local score = redis.call('ZSCORE', zset[2], bytes)
    if score then return zset[1], score end
  end
  local spot = is_queued and next_spot(bytes)
  if spot then return 'queue', tostring(length - 1 - spot) end
end
local words, bytes = {}, 0
for at = 4, #ARGV, columns do
  if bytes >= most and #words > 0 then
    words[#words + 1] = 'later'
  else
    local stands, new = ARGV[at], ARGV[at + 1]
    local place, score = place_of(stands, new == '') -- what is rewritten on its way into the queue did not stand there
    if not place and new ~= '' then
      stands = new
      place, score = place_of(stands, true)
    end
    words[#words + 1] = place and {'here', place, score, '', whole and stands or '', whole and '' or stands, ''} or 'gone'
    bytes = bytes + (place and #stands or 0)
  end
end
return words
