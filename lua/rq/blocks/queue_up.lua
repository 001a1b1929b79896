-- Add a job to its queue. Its hash expires after the job's own `ttl`, no longer after the retention of a failure.
--
-- needs    prefix format_time now_ms queued
-- gives    queue_up
-- include: format_time
local function queue_up(id, ttl, is_first)
  local key = prefix .. ':job:' .. id
  redis.call(
    'HSET', key, 'status', 'queued', 'enqueued_at', format_time(now_ms), 'started_at', '', 'ended_at', '', 'worker_name', ''
  )
  local ttl_s = tonumber(string.match(ttl or '', '^%d+$') or 0)
  for _, each in ipairs({key, key .. ':dependents', prefix .. ':job::' .. id .. ':dependencies'}) do
    if ttl_s > 0 then redis.call('EXPIRE', each, ttl_s) else redis.call('PERSIST', each) end
  end
  redis.call(is_first and 'LPUSH' or 'RPUSH', queued, id)
end
