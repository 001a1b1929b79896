-- Visit the unacked messages of all queues, in the order in which workers took them.
--
-- needs    unacked_index unacked read_entry now_ms visibility_ms
-- gives    for_each_held  returns the rank after the last entry that was read; it stops after `budget` bytes, or when `visit` returns false
-- include: read_entry
local function for_each_held(first, last, max_bytes, visit, budget) -- visit(text, owner, place, score, tag, eta_ms); text and owner, its queue, are nil above `max_bytes`
  local bytes_read = 0
  for from = first, last, 50 do
    local members = redis.call('ZRANGE', unacked_index, from, math.min(last, from + 49), 'WITHSCORES')
    for i = 1, #members, 2 do
      local tag, score, at_rank = members[i], members[i + 1], from + (i - 1) / 2
      if budget and bytes_read >= budget then return at_rank end
      local length = redis.call('HSTRLEN', unacked, tag)
      if length > 0 then
        local text, owner, eta_ms = nil, nil, -1
        if length <= max_bytes then
          text, bytes_read = redis.call('HGET', unacked, tag), bytes_read + length
          owner, eta_ms = read_entry(text)
        end
        local is_late = (tonumber(score) or 0) * 1000 < now_ms - visibility_ms
        if visit(text, owner, eta_ms > now_ms and 'eta' or is_late and 'late' or 'unacked', score, tag, eta_ms) == false then return at_rank + 1 end
      end
    end
  end
  return last + 1
end
