-- Celery: what a worker holds of the queue, by its tag.
-- needs    unacked unacked_index name now_ms visibility_ms entry_of
-- gives    held_here  the place, while the entry is the one that was seen: eta, unacked or late
redis.call('HLEN', unacked)
redis.call('ZCARD', unacked_index)
local function held_here(token, member)
  local text = redis.call('HGET', unacked, token)
  if not text or text ~= member then return end
  local own, eta = entry_of(text)
  local score = redis.call('ZSCORE', unacked_index, token)
  if own ~= name or not score then return end
  return eta > now_ms and 'eta' or tonumber(score) * 1000 < now_ms - visibility_ms and 'late' or 'unacked'
end
