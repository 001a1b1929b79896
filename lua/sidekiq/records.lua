-- Read the places and bytes of some jobs, so that a change can be undone.
--
-- A job is identified by its bytes: `member` as they were read, or `new` as a verb wrote them. `line` has the bytes
-- that are stored now; with `whole` they are in `body` instead. The score of a job in the queue is the number of jobs
-- that run earlier. After `most` bytes of replies, the remaining rows reply `later`.
--
-- KEYS     schedule retry queue dead
-- ARGV     queue     str   its name
--          whole?    bool  return the bytes as `body`
--          most      int   bytes of one reply; a single job may have more
--          each      (member bytes, new? bytes)
-- returns each  here   (place str, score str, record bytes, body bytes, line bytes, errors bytes)  the job
--               later  the reply is full; request this job again
--               gone   no such job
-- include: keys, columns, key_types(schedule retry dead), batch, listed, args(whole most)
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
local outcomes, bytes = {}, 0
for at = 4, #ARGV, columns do
  if bytes >= most and #outcomes > 0 then
    outcomes[#outcomes + 1] = 'later'
  else
    local stored, new = ARGV[at], ARGV[at + 1]
    local place, score = place_of(stored, new == '') -- A job with new bytes was not in the queue before.
    if not place and new ~= '' then
      stored = new
      place, score = place_of(stored, true)
    end
    outcomes[#outcomes + 1] = place and {'here', place, score, '', whole and stored or '', whole and '' or stored, ''} or 'gone'
    bytes = bytes + (place and #stored or 0)
  end
end
return outcomes
