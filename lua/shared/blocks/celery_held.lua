-- Celery: what workers hold of all queues, by when they took it.
-- needs    unacked unacked_index now_ms visibility_ms entry_of
-- gives    each_held  answers the rank behind the last that was looked at: it stops behind `budget` bytes, and where `look` says false
local function each_held(first, last, most, look, budget) -- look(text, queue, place, score, tag, eta); of more than `most` bytes neither text nor queue
  local spent = 0
  for from = first, last, 50 do
    local members = redis.call('ZRANGE', unacked_index, from, math.min(last, from + 49), 'WITHSCORES')
    for i = 1, #members, 2 do
      local tag, score, passed = members[i], members[i + 1], from + (i - 1) / 2
      if budget and spent >= budget then return passed end
      local length = redis.call('HSTRLEN', unacked, tag)
      if length > 0 then
        local text, own, eta = nil, nil, -1
        if length <= most then
          text, spent = redis.call('HGET', unacked, tag), spent + length
          own, eta = entry_of(text)
        end
        local is_late = (tonumber(score) or 0) * 1000 < now_ms - visibility_ms
        if look(text, own, eta > now_ms and 'eta' or is_late and 'late' or 'unacked', score, tag, eta) == false then return passed + 1 end
      end
    end
  end
  return last + 1
end
