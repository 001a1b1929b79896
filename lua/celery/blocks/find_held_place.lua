-- Find the place of a message that a worker took from the queue, by its delivery tag.
--
-- The two reads at the top end the script early if a key has another type.
--
-- needs    unacked unacked_index read_entry name now_ms visibility_ms
-- gives    find_held_place  returns eta, unacked or late; nil if the entry is no longer `member`
-- include: read_entry
redis.call('HLEN', unacked)
redis.call('ZCARD', unacked_index)
local function find_held_place(token, member)
  local text = redis.call('HGET', unacked, token)
  if not text or text ~= member then return end
  local owner, eta_ms = read_entry(text)
  local score = redis.call('ZSCORE', unacked_index, token)
  if owner ~= name or not score then return end
  return eta_ms > now_ms and 'eta' or tonumber(score) * 1000 < now_ms - visibility_ms and 'late' or 'unacked'
end
