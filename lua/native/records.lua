-- Return all data of some jobs, byte for byte, so that a change can be undone.
--
-- Records and bodies are returned only with `whole`. After `most` bytes of replies, the remaining rows reply `later`.
--
-- KEYS     scheduled ready reserved done dead jobs bodies attempts errors
-- ARGV     whole?    bool    with records and bodies
--          most      int     bytes of one reply; a single job may have more
--          each      (id bytes)
-- returns each  here   (place str, score str, record bytes, body bytes, line bytes, errors bytes)  the job
--               later  the reply is full; request this job again
--               gone   no such job
-- include: keys, args, batch_size
if not most or string.find(ARGV[2], '%D') then return redis.error_reply('ERR most is a whole number') end
local places = {scheduled = scheduled, ready = ready, reserved = reserved, done = done, dead = dead}
local outcomes, size = {}, 0
for at = 3, #ARGV do
  local id, place, score = ARGV[at], nil, nil
  for name, key in pairs(places) do
    local own = redis.call('ZSCORE', key, id)
    if own then place, score = name, own end
  end
  if not place then
    outcomes[#outcomes + 1] = 'gone'
  elseif size >= most then
    outcomes[#outcomes + 1] = 'later'
  else
    local row = {
      'here', place, score, whole and redis.call('HGET', jobs, id) or '', whole and redis.call('HGET', bodies, id) or '',
      redis.call('HGET', attempts, id) or '', redis.call('HGET', errors, id) or '',
    }
    for column = 4, 7 do size = size + #row[column] end
    outcomes[#outcomes + 1] = row
  end
end
return outcomes
