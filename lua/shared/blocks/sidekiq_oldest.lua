-- Sidekiq: how long the next job of a queue has waited, as `Sidekiq::Queue#latency` tells.
-- needs    now_ms at_ms
-- gives    oldest_ms
local function last_time(text, named) -- a client writes the times behind the arguments, so the last of a name is the job's own
  local from, last = 1, nil
  while from do
    local _, stop = string.find(text, named, from, true)
    last, from = stop or last, stop and stop + 1
  end
  return last and string.match(text, '^ ?(%d+%.?%d*)', last + 1)
end
local function oldest_ms(list, length) -- -1 for none, and where its text does not tell
  local next_job = length > 0 and redis.call('LINDEX', list, -1) or ''
  local ending = string.sub(next_job, -4096)
  local since_ms = at_ms(last_time(ending, '"enqueued_at":') or last_time(ending, '"created_at":'))
  return since_ms >= 0 and math.max(0, now_ms - since_ms) or -1
end
