-- Compute how long the next job of a queue has waited, as `Sidekiq::Queue#latency` does.
--
-- needs    at_ms now_ms
-- gives    oldest_ms
-- include: instant
-- Clients write the times after the arguments, so the last field of a name is the job's own.
local function last_time(text, field)
  local from, last = 1, nil
  while from do
    local _, stop = string.find(text, field, from, true)
    last, from = stop or last, stop and stop + 1
  end
  return last and string.match(text, '^ ?(%d+%.?%d*)', last + 1)
end
local function oldest_ms(list, length) -- -1 without a job, or if the job has no time
  local next_job = length > 0 and redis.call('LINDEX', list, -1) or ''
  local ending = string.sub(next_job, -4096)
  local since_ms = at_ms(last_time(ending, '"enqueued_at":') or last_time(ending, '"created_at":'))
  return since_ms ~= -1 and math.max(0, now_ms - since_ms) or -1
end
